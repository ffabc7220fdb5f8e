'use strict';
// Pages of one kind: many long names in a narrow window, and a single run.
(() => {
  const ticks = drawn('throughput').scales.y.ticks.map(t => [].concat(t.label).join('')), first = said('finding');
  const x = drawn('throughput').scales.x;
  check(document.documentElement.scrollWidth <= innerWidth, `the page is ${document.documentElement.scrollWidth} wide in a window of ${innerWidth}`);
  check(new Set(ticks).size === good.length, `names that look alike: ${ticks}`);
  check([...document.querySelectorAll('.fact b')].every(b => b.textContent !== '–'), 'an empty tile');
  check(x.height >= 40, `${x.height} for the labels of an axis and its title`);
  if (rows.length === 1) {
    check(/^run: [\d.]+k tokens\/s\.$/.test(first) && !said('throughput').includes('Per device'), first);
    check(!document.getElementById('filter') && said('all-runs').includes('Settings: model tiny, sequence length 128'), said('all-runs'));
    check(rows[0].predicted === 0.05 && !rows[0].known, 'not its own prediction');
  } else {
    check(first.includes('is the fastest of 10 configurations of the same work') && first.includes('it cannot be told apart from') &&
      first.includes('10 did other work'), first);
    check(!said('throughput').includes('Per device'), said('throughput'));
    check(said('loss').includes('do not differ at all') && said('loss').includes('16 of 20 are shown.'), said('loss'));
    check(drawn('loss').options.plugins.legend.display === false, 'a legend of 16 names');
    const roof = drawn('roofline');
    check(roof.scales.y.max >= 2 * Math.max(...roof.data.datasets.flatMap(d => d.data.map(p => p.y))), 'no room above the roof');
  }
  finish();
})();
