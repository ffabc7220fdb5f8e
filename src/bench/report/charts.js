'use strict';
// What charts have in common: colours (one per meaning, the same in every chart), axes, names, saving.
const PARTS = [['matmul', 'matrix products', '#3b6fd4'], ['attention', 'attention', '#8e5bd0'],
  ['other', 'other compute', '#38a3a5'], ['optimizer', 'optimizer', '#57a639'], ['copy', 'copies', '#a3b18a'],
  ['comm_dp', 'waiting: dp', '#e07a1f'], ['comm_tp', 'waiting: tp', '#d64550'],
  ['comm_pp', 'waiting: pp (bubble)', '#f2b632'], ['data', 'data', '#9c6644'], ['host', 'host', '#8d99ae']];
const TERMS = ['#3b6fd4', '#e07a1f', '#57a639', '#8e5bd0', '#38a3a5', '#d64550', '#8d99ae'];
const COLORS = ['#3b6fd4', '#e07a1f', '#57a639', '#8e5bd0', '#d64550', '#38a3a5', '#f2b632', '#9c6644'];
const TASKS = [['forward', '#3b6fd4'], ['backward', '#57a639'], ['input gradient', '#57a639'], ['weight gradient', '#38a3a5']];
const many = () => printing() ? 24 : 40;  // bars that one chart can show
const shown = (list, all) => list.length < all.length ? ` ${list.length} of ${all.length} are shown.` : '';
const devices = r => r.devices === 1 ? 'one device' : `each of ${r.devices}`;
const narrow = () => !printing() && document.documentElement.clientWidth < 620;

// Saving -------------------------------------------------------------------------------------------
const csvField = x => {
  let t = String(x ?? '');
  if (/^[=+\-@\t]/.test(t) && !/^[+-]?[\d.eE+-]+$/.test(t)) t = "'" + t;
  return /[",\n]/.test(t) ? '"' + t.replaceAll('"', '""') + '"' : t;
};
function download(name, url) { const link = el('a'); link.href = url; link.download = name; link.click(); }
function saveButtons(parent, name, saves) {
  const line = el('div', undefined, 'saves'), file = name.replace(/[^a-z0-9]+/gi, '-');
  for (const [kind, url] of saves) {
    const button = el('button', 'save ' + kind, 'save');
    button.addEventListener('click', () => download(file + '.' + kind.toLowerCase(), url()));
    line.append(button);
  }
  parent.append(line);
}
function chartCsv(chart) {
  const sets = chart.data.datasets, labels = chart.data.labels || [];
  if (sets.some(s => s.data.some(d => d && typeof d === 'object'))) {
    return [['series', 'name', 'x', 'y'], ...sets.flatMap(s => s.data.map(d => [s.label, d.name, d.x, d.y]))];
  }
  const extra = sets[0] && sets[0].low ? ['low', 'high'] : [];
  return [['', ...sets.map(s => s.label), ...extra],
    ...labels.map((l, i) => [l, ...sets.map(s => s.data[i]), ...extra.map(k => sets[0][k][i])])];
}
const csvUrl = lines => 'data:text/csv;charset=utf-8,' + encodeURIComponent(lines.map(l => l.map(csvField).join(',')).join('\n') + '\n');

// Chart.js -----------------------------------------------------------------------------------------
const charts = [];
const intervals = {  // 95 % intervals as whiskers, for bar charts whose data sets carry `low`, `high`
  id: 'intervals',
  afterDatasetsDraw(chart) {
    const set = chart.data.datasets[0];
    if (!set || !set.low) return;
    const c = chart.ctx, x = chart.scales.x;
    c.save(); c.strokeStyle = css('--ink'); c.lineWidth = 1.5;
    chart.getDatasetMeta(0).data.forEach((bar, i) => {
      const a = x.getPixelForValue(set.low[i]), b = x.getPixelForValue(set.high[i]), at = bar.y;
      c.beginPath(); c.moveTo(a, at); c.lineTo(b, at);
      for (const e of [a, b]) { c.moveTo(e, at - 4); c.lineTo(e, at + 4); }
      c.stroke();
    });
    c.restore();
  }
};
const measuredBox = {  // an outline around each bar as long as `measured` says, and a line at `capacity`
  id: 'measuredBox',
  afterDatasetsDraw(chart) {
    const { measured, capacity } = chart.options.outline || {};
    if (!measured) return;
    const c = chart.ctx, x = chart.scales.x, zero = x.getPixelForValue(0);
    c.save(); c.strokeStyle = css('--ink'); c.lineWidth = 1.5;
    chart.getDatasetMeta(0).data.forEach((bar, i) => {
      if (measured[i] > 0) c.strokeRect(zero, bar.y - bar.height / 2 - 2, x.getPixelForValue(measured[i]) - zero, bar.height + 4);
    });
    if (capacity) {
      c.strokeStyle = css('--bad'); c.setLineDash([5, 4]);
      c.beginPath(); c.moveTo(x.getPixelForValue(capacity), chart.chartArea.top); c.lineTo(x.getPixelForValue(capacity), chart.chartArea.bottom); c.stroke();
    }
    c.restore();
  }
};
const page = {  // pictures are saved with the page's colour behind them
  id: 'page',
  beforeDraw(chart) { chart.ctx.save(); chart.ctx.fillStyle = css('--box'); chart.ctx.fillRect(0, 0, chart.width, chart.height); chart.ctx.restore(); }
};
function chart(parent, name, height, config) {
  if (typeof Chart === 'undefined') { parent.append(el('p', 'Charts need Chart.js at build time.', 'soft')); return null; }
  const box = el('div', undefined, 'chart'), canvas = el('canvas');
  box.style.height = (printing() ? 0.8 : 1) * height + 'px';
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', name);
  box.append(canvas);
  parent.append(box);
  config.plugins = (config.plugins || []).concat(page);
  config.options = Object.assign({ animation: false, responsive: true, maintainAspectRatio: false }, config.options);
  const made = new Chart(canvas, config);
  charts.push(made);
  saveButtons(parent, name, [['PNG', () => made.toBase64Image()], ['CSV', () => csvUrl(chartCsv(made))]]);
  return made;
}
// Names that differ must look different: long ones take several lines, very long ones lose their middle.
const cut = (text, most) => text.length > most ? text.slice(0, most / 2) + '…' + text.slice(1 - most / 2) : text;
function lines(text) {
  const most = narrow() ? 22 : 48;
  return cut(text, 4 * most).match(new RegExp(`.{1,${most}}$|.{1,${most - 1}}[_, ]|.{1,${most}}`, 'gs')) || [''];
}
// Height of a chart with a bar for each of these names, and `more` for its axis and legend.
const high = (list, more) => more + list.length * (10 + 14 * Math.max(...list.map(name => lines(name).length)));
function axis(title, more) {
  return Object.assign({ title: { display: !!title, text: title }, grid: { color: css('--line') } }, more);
}
const names = () => axis('', { ticks: { callback(v) { return lines(this.getLabelForValue(v)); }, autoSkip: false } });
// The next round number, so that an axis does not end at 929.1.
const nice = x => { const unit = 10 ** Math.floor(Math.log10(x)); return unit * [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find(m => m * unit >= x * (1 - 1e-9)); };
const round = v => /^1e/.test(Number(v).toExponential());
const powers = () => ({ type: 'logarithmic', ticks: { callback: v => round(v) ? count(v) : '', maxRotation: 0 },
  grid: { color: c => c.tick && round(c.tick.value) ? css('--line') : 'transparent' } });
// Draws one of many runs, the first until another is chosen.
function choice(parent, name, list, draw) {
  const select = el('select'), holder = el('div');
  list.forEach((r, i) => { const o = el('option', r.label); o.value = i; select.append(o); });
  const show = () => {
    view.run[name] = select.value;
    holder.replaceChildren(el('p', `${list[select.value].label}: ${layout(list[select.value])}`));
    draw(list[select.value], holder);
  };
  select.value = view.run[name] ?? 0;
  select.addEventListener('change', show);
  select.setAttribute('aria-label', 'run');
  if (list.length > 1) parent.append(select);
  parent.append(holder);
  show();
}
