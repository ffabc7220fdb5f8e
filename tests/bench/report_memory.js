'use strict';
// Three runs of 400 to 600 MiB beside one that would need 88 GiB, with a limit near them or far away.
(() => {
  const chart = drawn('memory-per-rank'), x = chart.scales.x;
  const text = said('memory-per-rank'), limit = rows[0].limit / 2 ** 20;
  const sizes = rows.map(r => r.memory_rank / 2 ** 20), close = limit === 1000;
  check(Math.max(...sizes) === 90000, `sizes: ${sizes}`);
  check(x.options.title.text === 'MiB per rank', `unit: ${x.options.title.text}`);
  check(x.max === (close ? 1200 : 800), `the axis ends at ${x.max}`);  // the next round number above what one grew by, or the limit
  check(chart.options.outline.capacity === (close ? 1000 : 0), `a line at ${chart.options.outline.capacity}`);
  check(text.includes(close ? 'Dashed: the smallest limit, 1000.00 MiB.' : 'The limit, 4.88 GiB, is far to the right.'), text);
  const line = strokes(measuredBox, chart).filter(call => call[0] === 'lineTo');
  check(close ? line.length === 1 && near(line[0][1], x.getPixelForValue(1000)) : line.length === 0, `the limit is drawn: ${line}`);
  const labels = chart.data.labels.join('; ');
  check(labels.includes('size 3 (OOM): 87.89 GiB') && (labels.match(/GiB|MiB/g) || []).length === 1, `names: ${labels}`);
  check(chart.getDatasetMeta(0).data.every((bar, i) => sizes[i] > x.max || bar.x < x.right), 'a bar of what ran is cut');
  finish();
})();
