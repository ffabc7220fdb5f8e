'use strict';
// The charts of the page. One colour per meaning, the same in every chart.
const PARTS = [['matmul', 'matrix products', '#3b6fd4'], ['attention', 'attention', '#8e5bd0'],
  ['other', 'other compute', '#38a3a5'], ['optimizer', 'optimizer', '#57a639'], ['copy', 'copies', '#a3b18a'],
  ['comm_dp', 'waiting: dp', '#e07a1f'], ['comm_tp', 'waiting: tp', '#d64550'],
  ['comm_pp', 'waiting: pp (bubble)', '#f2b632'], ['data', 'data', '#9c6644'], ['host', 'host', '#8d99ae']];
const TERMS = ['#3b6fd4', '#e07a1f', '#57a639', '#8e5bd0', '#38a3a5', '#d64550', '#8d99ae'];
const COLORS = ['#3b6fd4', '#e07a1f', '#57a639', '#8e5bd0', '#d64550', '#38a3a5', '#f2b632', '#9c6644'];
const TASKS = [['forward', '#3b6fd4'], ['backward', '#57a639'], ['input gradient', '#57a639'], ['weight gradient', '#38a3a5']];
const many = 40;  // bars that one chart can show
const shown = (list, all) => list.length < all.length ? ` ${list.length} of ${all.length} are shown.` : '';
const narrow = () => document.documentElement.clientWidth < 620;

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
  box.style.height = height + 'px';
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
const round = v => /^1e/.test(Number(v).toExponential());
const powers = () => ({ type: 'logarithmic', ticks: { callback: v => round(v) ? count(v) : '', maxRotation: 0 },
  grid: { color: c => c.tick && round(c.tick.value) ? css('--line') : 'transparent' } });
function choice(parent, list, text, draw) {  // one of many runs
  const select = el('select');
  list.forEach((r, i) => { const o = el('option', text(r)); o.value = i; select.append(o); });
  select.addEventListener('change', () => draw(list[select.value]));
  select.setAttribute('aria-label', 'run');
  if (list.length > 1) parent.append(select);
}

// Charts of the runs -------------------------------------------------------------------------------
function throughput() {
  const all = good.slice(), list = (data.continued ? all : all.sort((a, b) => b.per_device - a.per_device)).slice(0, many);
  if (!list.length) return;
  const { best, rivals, others, close } = standing(all, r => r.devices);
  const s = section('Throughput', 'Tokens per second and device: bars are medians, whiskers the 95 % interval of the median.' +
    (data.continued || rivals === 1 ? '' : ` Per device, ${best.label} is first${others ? ` of ${rivals} that do its work` : ''}${close}.`) + shown(list, all));
  chart(s, 'throughput', high(list.map(r => r.label), 90), { type: 'bar', plugins: [intervals],
    data: { labels: list.map(r => r.label), datasets: [{ label: 'tokens/s per device', data: list.map(r => r.per_device), backgroundColor: COLORS[0],
      low: list.map(r => r.low / r.devices), high: list.map(r => r.high / r.devices) }] },
    options: { indexAxis: 'y', plugins: { legend: { display: false } },
      scales: { x: axis('tokens/s per device', { beginAtZero: true, suggestedMax: Math.max(...list.map(r => r.high / r.devices)) }), y: names() } } });
}
function attribution() {
  const total = r => PARTS.reduce((sum, [key]) => sum + r.parts[key], 0);
  const all = good.filter(total), list = all.slice(0, many);  // of training runs it is not kept
  if (!list.length) return;
  const first = list[0], biggest = PARTS.slice().sort((a, b) => first.parts[b[0]] - first.parts[a[0]])[0];
  const s = section('Where the step time goes',
    `Share of wall time, mean over steps and ranks. In ${first.label}, ${percent(first.parts[biggest[0]] / total(first))} is ${biggest[1]}.` + shown(list, all));
  const used = PARTS.filter(([key]) => list.some(r => r.parts[key] / total(r) >= 5e-4));
  chart(s, 'attribution', high(list.map(r => r.label), 110), { type: 'bar',
    data: { labels: list.map(r => r.label), datasets: used.map(([key, name, color]) =>
      ({ label: name, backgroundColor: color, data: list.map(r => 100 * r.parts[key] / total(r)) })) },
    options: { indexAxis: 'y', plugins: { legend: { labels: { boxWidth: 12 } } },
      scales: { x: axis('% of the step', { stacked: true, max: 100 }), y: Object.assign(names(), { stacked: true }) } } });
}
function memory() {
  const all = rows.filter(r => r.memory_rank > 0), list = all.slice(0, many);
  if (!list.length) return;
  // The axis is for what ran; bars of what did not fit end at its edge, and their names say how long they are.
  const ran = list.filter(r => r.tokens > 0), limits = list.map(r => r.limit).filter(x => x > 0);
  const most = Math.max(...(ran.length ? ran : list).map(r => Math.max(r.memory_rank, r.memory_grown)));
  const limit = limits.length ? Math.min(...limits) : 0, near = limit && limit < 4 * most;
  const end = 1.1 * Math.max(most, near ? limit : 0), cut = list.some(r => r.memory_rank > end);
  const sized = r => named(r) + (r.memory_rank > end ? `: ${bytes(r.memory_rank)}` : '');
  const s = section('Memory per rank', 'Colours: what the plan gives each purpose on the rank that needs most (the engine allocates exactly that). ' +
    'Outline: what the process really grew by, per rank (of stages that differ, the mean). ' + (limit ? (near ? `Dashed: the smallest limit, ${bytes(limit)}.` : `The limit, ${bytes(limit)}, is far to the right.`) : '') + shown(list, all));
  const [unit, name] = most < 10 * 2 ** 30 ? [2 ** 20, 'MiB'] : [2 ** 30, 'GiB'], in_unit = x => x / unit;
  const terms = data.terms.map((name, i) => ({ label: name, backgroundColor: TERMS[i], data: list.map(r => in_unit(r.terms[i])) }))
    .filter(set => set.data.some(x => x > 0));
  chart(s, 'memory', high(list.map(sized), 110), { type: 'bar', plugins: [measuredBox], data: { labels: list.map(sized), datasets: terms },
    options: { indexAxis: 'y', outline: { measured: list.map(r => in_unit(r.memory_grown)), capacity: near ? in_unit(limit) : 0 },
      plugins: { legend: { labels: { boxWidth: 12 } } },
      scales: { x: axis(name, Object.assign({ stacked: true }, cut ? { max: in_unit(end) } : { suggestedMax: in_unit(near ? Math.max(most, limit) : most) })), y: Object.assign(names(), { stacked: true }) } } });
}
function scatter(parent, name, unit, list, x, y, known) {
  const most = Math.max(...list.map(r => Math.max(x(r), y(r)))), least = Math.min(...list.map(r => Math.min(x(r), y(r))));
  const wide = most > 30 * least, ends = wide ? [least / 1.3, most * 1.3] : [0, most * 1.05];
  const scale = title => axis(title, Object.assign({ min: ends[0], max: ends[1] }, wide ? powers() : {}));
  chart(parent, name, 340, { type: 'scatter',
    data: { datasets: [{ label: 'runs', borderColor: COLORS[0], backgroundColor: list.map(r => known(r) ? css('--box') : COLORS[0]), pointRadius: list.map(r => known(r) ? 6 : 4),
        data: list.map(r => ({ x: x(r), y: y(r), name: r.label + (known(r) ? ' (known)' : '') })) },
      { label: 'equal', type: 'line', borderColor: css('--soft'), borderDash: [4, 4], borderWidth: 1, pointRadius: 0, data: ends.map(v => ({ x: v, y: v })) }] },
    options: { plugins: { legend: { display: false }, tooltip: { callbacks: { label: c => `${c.raw.name || ''}: ${count(c.raw.x)} predicted, ${count(c.raw.y)} measured` } } },
      scales: { x: scale(`predicted ${unit}`), y: scale(`measured ${unit}`) } } });
}
// Among runs that train the same tokens in a step, told apart by how: was the one with the least predicted time the fastest?
function firstChoice(list) {
  const works = new Map();
  for (const r of list) {
    works.set(work(r), (works.get(work(r)) || []).concat(r));
  }
  const least = (runs, of) => runs.reduce((a, b) => of(b) < of(a) ? b : a);
  const tried = [...works.values()].filter(runs => runs.length > 1).map(runs => {
    const choice = least(runs, r => r.predicted), best = least(runs, r => r.seconds);
    return { choice, share: best.seconds / choice.seconds };
  });
  if (!tried.length) return '';
  const worst = percent(Math.min(...tried.map(t => t.share))), right = tried.filter(t => t.share === 1).length;
  if (tried.length === 1) return `; the planner's first choice, ${tried[0].choice.label}, ` + (right ? 'was the fastest' : `reached ${worst} of the fastest`);
  return `; the planner's first choice was the fastest in ${right} of ${tried.length} comparisons of equal work` + (right < tried.length ? `, and reached ${worst} of the fastest at worst` : '');
}
function predictions() {
  const times = good.filter(r => r.predicted > 0), told = times.filter(r => !r.known), sizes = good.filter(r => r.memory_grown > 0 && r.memory_foreseen > 0);
  if (times.length < 2 && sizes.length < 2) return;
  let text = 'On the dashed line prediction and measurement agree.';
  if (told.length < times.length) text += ' A known run (hollow) tells how fast its build is on its machine; others of its kind are predicted from it.';
  if (times.length > 1 && told.length) {
    const errors = told.map(r => Math.abs(r.predicted / r.seconds - 1));
    text += ` Time: median error ${percent(median(errors))}${firstChoice(times)}.`;
  }
  const s = section('Predicted and measured', text), pair = el('div', undefined, 'pair');
  s.append(pair);
  for (const [list, name, unit, x, y, known] of [[times, 'predicted against measured time', 'ms', r => 1e3 * r.predicted, r => 1e3 * r.seconds, r => r.known],
      [sizes, 'predicted against measured memory', 'MiB of the process per rank', r => r.memory_foreseen / 2 ** 20, r => r.memory_grown / 2 ** 20, () => false]]) {
    if (list.length < 2) continue;
    const half = el('div'); pair.append(half);
    scatter(half, name, unit, list, x, y, known);
  }
}
function heatmap() {
  const groups = new Map();
  for (const r of rows) {
    const key = JSON.stringify([r.model, r.seq, r.precision]);
    groups.set(key, (groups.get(key) || []).concat(r));
  }
  let s = null;
  for (const [key, list] of groups) {
    const tps = [...new Set(list.map(r => r.tp))].sort((a, b) => a - b), pps = [...new Set(list.map(r => r.pp))].sort((a, b) => a - b);
    if (tps.length * pps.length < 2) continue;
    s = s || section('Topologies', 'Best tokens/s of each tensor-parallel (across) and pipeline (down) size; hatched where nothing ran, with the reason.');
    const [model, seq, precision] = JSON.parse(key), most = Math.max(...list.map(r => r.tokens), 1);
    s.append(el('p', `${model}, sequence ${seq}, ${precision}`));
    const box = el('div', undefined, 'scroll'), t = el('table', undefined, 'heat'), head = el('tr');
    head.append(el('th', 'pp \\ tp'), ...tps.map(tp => el('th', String(tp))));
    t.append(head);
    for (const pp of pps) {
      const line = el('tr');
      line.append(el('th', String(pp)));
      for (const tp of tps) {
        const here = list.filter(r => r.tp === tp && r.pp === pp), best = here.slice().sort((a, b) => b.tokens - a.tokens)[0];
        if (!best) { line.append(el('td', 'not tried', 'none')); continue; }
        if (!best.tokens) { line.append(el('td', `${best.status}: ${firstProblem(best.reason)}`, 'none hatched')); continue; }
        const cell = el('td');
        cell.append(el('b', count(best.tokens)), el('span', layout(best), 'soft'));
        cell.style.backgroundColor = `rgba(59, 111, 212, ${0.08 + 0.5 * best.tokens / most})`;
        line.append(cell);
      }
      t.append(line);
    }
    box.append(t); s.append(box);
  }
}
function scaling() {
  const groups = new Map();
  for (const r of good) {
    const key = `${r.model} T=${r.seq} ${r.precision}, batch ${r.global}`;
    const best = groups.get(key) || new Map(), old = best.get(r.devices);
    if (!old || r.tokens > old.tokens) best.set(r.devices, r);
    groups.set(key, best);
  }
  const sets = [];
  for (const [key, best] of groups) {
    if (best.size < 2) continue;
    const points = [...best.values()].sort((a, b) => a.devices - b.devices), color = COLORS[sets.length / 2 % COLORS.length];
    const one = points[0].tokens / points[0].devices;
    sets.push({ label: key, borderColor: color, backgroundColor: color, data: points.map(r => ({ x: r.devices, y: r.tokens, name: `${r.label}, ${percent(r.tokens / one / r.devices)} efficiency` })) });
    sets.push({ label: 'ideal', borderColor: color, borderDash: [4, 4], borderWidth: 1, pointRadius: 0, data: points.map(r => ({ x: r.devices, y: one * r.devices })) });
  }
  if (!sets.length || data.continued) return;
  const last = sets[0].data[sets[0].data.length - 1], ideal = sets[1].data[sets[1].data.length - 1];
  const s = section('Scaling', `Best run at each number of ranks; dashed is ideal. ${sets[0].label}: ${percent(last.y / ideal.y)} efficiency at ${last.x} ranks.`);
  chart(s, 'scaling', 320, { type: 'line', data: { datasets: sets },
    options: { plugins: { legend: { labels: { boxWidth: 12, filter: item => item.text !== 'ideal' } }, tooltip: { callbacks: { label: c => `${count(c.raw.y)} tokens/s ${c.raw.name || ''}` } } },
      scales: { x: axis('ranks', { type: 'linear', ticks: { precision: 0 } }), y: axis('tokens/s', { beginAtZero: true }) } } });
}
function roofline() {
  const list = good.filter(r => r.ops && r.ops.length && r.gemm_flops > 0 && r.bandwidth > 0);
  if (!list.length) return;
  const s = section('Roofline', 'Each operator of a step: work per byte against the rate it reached. Below the slope, memory bounds it; below the flat roof, the matrix products of this machine do.');
  const holder = el('div');
  let made = null;
  const draw = r => {
    if (made) charts.splice(charts.indexOf(made), 1)[0].destroy();
    const ops = r.ops.filter(o => o[2] > 0 && o[1] > 0 && o[3] > 0), points = ops.map(o => ({ x: o[2] / o[3], y: o[2] / o[1], name: o[0], share: o[1] / r.seconds }));
    const knee = r.gemm_flops / r.bandwidth, left = Math.min(knee / 30, ...points.map(p => p.x / 2)), right = Math.max(knee * 30, ...points.map(p => p.x * 2));
    holder.replaceChildren();
    made = chart(holder, 'roofline ' + r.label, 360, { type: 'scatter',
      data: { datasets: [...[...new Set(points.map(p => p.name))].map((name, i) => ({ label: name, backgroundColor: COLORS[i % COLORS.length],
          pointStyle: i < COLORS.length ? 'circle' : 'rectRot', data: points.filter(p => p.name === name), pointRadius: 3 + 12 * Math.sqrt(points.find(p => p.name === name).share) })),
        { label: 'roof', type: 'line', borderColor: css('--ink'), borderWidth: 1.5, pointRadius: 0, data: [{ x: left, y: left * r.bandwidth }, { x: knee, y: r.gemm_flops }, { x: right, y: r.gemm_flops }] }] },
      options: { plugins: { legend: { labels: { boxWidth: 10, usePointStyle: true } }, tooltip: { callbacks: { label: c => c.raw.name ? `${c.raw.name}: ${count(c.raw.y)}FLOP/s, ${percent(c.raw.share)} of the step` : '' } } },
        scales: { x: axis('FLOP per byte', powers()), y: axis('FLOP/s per rank', Object.assign(powers(), { suggestedMax: 2 * Math.max(r.gemm_flops, ...points.map(p => p.y)) })) } } });
  };
  choice(s, list.slice(0, 200), r => r.label, draw);
  s.append(holder);
  draw(list[0]);
}
const svg = (tag, attributes, text) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
  if (text !== undefined) node.textContent = text;
  return node;
};
function drawTimeline(r) {
  const left = 64, lane = 30, wide = 1000, end = Math.max(...r.timeline.flat().map(t => t[4])) || 1, high = 34 + lane * r.timeline.length + 26;
  const at = x => left + (wide - left - 10) * x / end, ink = css('--ink'), soft = css('--soft');
  const picture = svg('svg', { viewBox: `0 0 ${wide} ${high}`, role: 'img', 'aria-label': 'pipeline timeline', 'font-family': 'system-ui, sans-serif', 'font-size': 12 });
  picture.append(svg('rect', { width: wide, height: high, fill: css('--box') }));
  const used = [...new Set(r.timeline.flat().map(t => t[0]))].sort();
  used.forEach((kind, i) => {
    picture.append(svg('rect', { x: left + 130 * i, y: 8, width: 12, height: 12, fill: TASKS[kind][1] }), svg('text', { x: left + 130 * i + 18, y: 18, fill: ink }, TASKS[kind][0]));
  });
  r.timeline.forEach((tasks, stage) => {
    const y = 32 + lane * stage;
    picture.append(svg('text', { x: 6, y: y + 18, fill: ink }, `stage ${stage}`), svg('rect', { x: left, y, width: at(end) - left, height: lane - 6, fill: css('--idle') }));
    for (const [kind, mb, chunk, from, to] of tasks) {
      const box = svg('rect', { x: at(from), y, width: Math.max(0.7, at(to) - at(from)), height: lane - 6, fill: TASKS[kind][1], 'fill-opacity': chunk % 2 ? 0.7 : 1, stroke: css('--box'), 'stroke-width': 0.5 });
      box.append(svg('title', {}, `${TASKS[kind][0]} ${mb}${chunk ? '.' + chunk : ''}: ${seconds(to - from)}, from ${seconds(from)}`));
      picture.append(box);
      if (at(to) - at(from) > 16) picture.append(svg('text', { x: (at(from) + at(to)) / 2, y: y + 16, fill: '#fff', 'text-anchor': 'middle', 'pointer-events': 'none' }, mb));
    }
  });
  for (let i = 0; i <= 5; ++i) picture.append(svg('text', { x: at(end * i / 5), y: high - 8, fill: soft, 'text-anchor': i === 5 ? 'end' : i ? 'middle' : 'start' }, seconds(end * i / 5 || 0)));
  return picture;
}
function timeline() {
  const list = good.filter(r => r.timeline && r.timeline.length > 1);
  if (!list.length) return;
  const idle = r => { const end = Math.max(...r.timeline.flat().map(t => t[4])); return 1 - r.timeline.flat().reduce((s, t) => s + t[4] - t[3], 0) / end / r.timeline.length; };
  const worst = list.slice().sort((a, b) => idle(b) - idle(a))[0];
  const s = section('Pipeline timeline', `The tasks of the last step as they ran, by stage; numbers are micro-batches, grey is standing still. ${worst.label} stands still ${percent(idle(worst))} of the time` +
    (list.length > 1 ? ', most of all.' : '.'));
  const holder = el('div');
  const draw = r => {
    const box = el('div', undefined, 'chart scroll-x'), picture = drawTimeline(r);
    box.append(picture);
    holder.replaceChildren(el('p', `${r.label}: ${layout(r)}, ${r.schedule}; standing still ${percent(idle(r))}`), box);
    saveButtons(holder, 'timeline ' + r.label, [['SVG', () => 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(new XMLSerializer().serializeToString(picture))],
      ['CSV', () => csvUrl([['stage', 'task', 'micro-batch', 'chunk', 'start', 'end'], ...r.timeline.flatMap((tasks, i) => tasks.map(t => [i, TASKS[t[0]][0], ...t.slice(1)]))])]]);
  };
  choice(s, list, r => r.label, draw);
  s.append(holder);
  draw(list[0]);
}
function losses() {
  const all = rows.filter(r => r.losses.length > 1), list = all.slice(0, 16), spread = data.loss_spread, named_below = list.length <= COLORS.length;
  if (!list.length) return;
  const s = section('Loss', (spread
    ? `Runs that differ only in how they are cut coincide: over the first ${spread.steps} steps ` +
      (spread.most ? `the largest difference among ${spread.runs} is ${spread.most.toExponential(1)}.` : `the losses of ${spread.runs} do not differ at all.`) + ' Later a jump of the loss can magnify the last digits.'
    : 'Loss of each step, nats.') + (named_below ? '' : ' Point at a curve for its name.') + shown(list, all));
  const legend = { boxWidth: 12, generateLabels: c => Chart.defaults.plugins.legend.labels.generateLabels(c).map(l => Object.assign(l, { text: cut(l.text, narrow() ? 44 : 100) })) };
  chart(s, 'loss', named_below ? 340 + 20 * list.length : 360, { type: 'line', data: { datasets: list.map((r, i) => ({ label: named(r), data: r.losses.map(([step, loss]) => ({ x: step, y: loss })),
      borderColor: COLORS[i % COLORS.length], backgroundColor: COLORS[i % COLORS.length], borderWidth: 1 + (list.length - i) % 3, borderDash: i < 8 ? [] : [5, 3], pointRadius: 0 })) },
    options: { interaction: { mode: 'nearest', intersect: false }, plugins: { legend: { display: named_below, labels: legend } },
      scales: { x: axis('step', { type: 'linear', min: 1, max: Math.max(...list.map(r => r.losses.at(-1)[0])), ticks: { precision: 0 } }), y: axis('loss') } } });
}

// The whole page. Drawn again when the colours change: for another theme, for print.
function draw() {
  for (const made of charts.splice(0)) made.destroy();
  for (const id of ['main', 'facts', 'contents']) document.getElementById(id).replaceChildren();
  if (typeof Chart !== 'undefined') {
    Chart.defaults.color = css('--ink');
    Chart.defaults.borderColor = css('--line');
    Chart.defaults.font.family = 'system-ui, sans-serif';
  }
  header(); table(); throughput(); attribution(); memory(); predictions(); heatmap(); scaling(); roofline(); timeline(); losses(); reproduce();
}
draw();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
addEventListener('beforeprint', () => { document.documentElement.dataset.theme = 'print'; draw(); });
addEventListener('afterprint', () => { delete document.documentElement.dataset.theme; draw(); });
document.documentElement.dataset.ready = 'yes';
