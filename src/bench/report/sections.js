'use strict';
// The sections of the page below its table, each with its finding and its chart.
function throughput() {
  const list = good.slice(0, many());
  if (!list.length) return;
  const { best, same } = standing(good), thrifty = same.reduce((a, b) => b.per_device > a.per_device ? b : a);
  const s = section('Throughput', 'Tokens per second, all devices together: bars are medians, whiskers the 95 % interval of the median.' +
    (data.continued || thrifty === best ? '' : ` Per device, ${thrifty.label} does most: ${count(thrifty.per_device)} tokens/s on ${devices(thrifty)}, ` +
      `where ${best.label} does ${count(best.per_device)} on each of ${best.devices}.`) + shown(list, good));
  chart(s, 'throughput', high(list.map(r => r.label), 90), { type: 'bar', plugins: [intervals],
    data: { labels: list.map(r => r.label), datasets: [{ label: 'tokens/s', data: list.map(r => r.tokens), backgroundColor: COLORS[0],
      low: list.map(r => r.low), high: list.map(r => r.high) }] },
    options: { indexAxis: 'y', plugins: { legend: { display: false } },
      scales: { x: axis('tokens per second', { beginAtZero: true, suggestedMax: Math.max(...list.map(r => r.high)) }), y: names() } } });
}
function attribution() {
  const total = r => PARTS.reduce((sum, [key]) => sum + r.parts[key], 0);
  const all = good.filter(total), list = all.slice(0, many());  // GPUs time operators only when asked to
  if (!list.length) return;
  const first = list[0], biggest = PARTS.slice().sort((a, b) => first.parts[b[0]] - first.parts[a[0]])[0];
  const s = section('Where the step time goes',
    `Share of the wall time, ${data.continued ? 'mean over the steps of the first rank' : 'mean over steps and ranks'}. In ${first.label}, ${percent(first.parts[biggest[0]] / total(first))} is ${biggest[1]}.` + shown(list, all));
  const used = PARTS.filter(([key]) => list.some(r => r.parts[key] / total(r) >= 5e-4));
  chart(s, 'attribution', high(list.map(r => r.label), 110), { type: 'bar',
    data: { labels: list.map(r => r.label), datasets: used.map(([key, name, color]) =>
      ({ label: name, backgroundColor: color, data: list.map(r => 100 * r.parts[key] / total(r)) })) },
    options: { indexAxis: 'y', plugins: { legend: { labels: { boxWidth: 12 } } },
      scales: { x: axis('% of the time of a step', { stacked: true, max: 100 }), y: Object.assign(names(), { stacked: true }) } } });
}
function memory() {
  const all = rows.filter(r => r.memory_rank > 0), list = all.slice(0, many());
  if (!list.length) return;
  // The axis is for what ran; bars of what did not fit end at its edge, and their names say how long they are.
  const ran = list.filter(r => r.tokens > 0), limits = list.map(r => r.limit).filter(x => x > 0);
  const most = Math.max(...(ran.length ? ran : list).map(r => Math.max(r.memory_rank, r.memory_grown)));
  const limit = limits.length ? Math.min(...limits) : 0, near = limit && limit < 4 * most;
  const [unit, name] = most < 10 * 2 ** 30 ? [2 ** 20, 'MiB'] : [2 ** 30, 'GiB'], in_unit = x => x / unit;
  const end = unit * nice(in_unit(1.1 * Math.max(most, near ? limit : 0))), cut = list.some(r => r.memory_rank > end);
  const sized = r => named(r) + (r.memory_rank > end ? `: ${bytes(r.memory_rank)}` : '');
  const s = section('Memory per rank', 'Bars: the planned memory of the largest rank, by purpose (the engine allocates exactly that). ' +
    'Outlines: how much the process really grew, per rank (where stages differ, their mean). ' + (limit ? (near ? `Dashed: the smallest limit, ${bytes(limit)}.` : `The limit, ${bytes(limit)}, is far to the right.`) : '') + shown(list, all));
  const terms = data.terms.map((name, i) => ({ label: name, backgroundColor: TERMS[i], data: list.map(r => in_unit(r.terms[i])) }))
    .filter(set => set.data.some(x => x > 0));
  chart(s, 'memory', high(list.map(sized), 110), { type: 'bar', plugins: [measuredBox], data: { labels: list.map(sized), datasets: terms },
    options: { indexAxis: 'y', outline: { measured: list.map(r => in_unit(r.memory_grown)), capacity: near ? in_unit(limit) : 0 },
      plugins: { legend: { labels: { boxWidth: 12 } } },
      scales: { x: axis(`${name} per rank`, Object.assign({ stacked: true }, cut ? { max: in_unit(end) } : { suggestedMax: in_unit(near ? Math.max(most, limit) : most) })), y: Object.assign(names(), { stacked: true }) } } });
}
function scatter(parent, name, unit, list, x, y, known) {
  const most = Math.max(...list.map(r => Math.max(x(r), y(r)))), least = Math.min(...list.map(r => Math.min(x(r), y(r))));
  const wide = most > 30 * least, ends = wide ? [least / 1.3, most * 1.3] : [0, nice(1.03 * most)];
  const scale = title => axis(title + unit, Object.assign({ min: ends[0], max: ends[1] }, wide ? powers() : {}));
  chart(parent, name, 340, { type: 'scatter',
    data: { datasets: [{ label: 'runs', borderColor: COLORS[0], backgroundColor: list.map(r => known(r) ? css('--box') : COLORS[0]), pointRadius: list.map(r => known(r) ? 6 : 4),
        data: list.map(r => ({ x: x(r), y: y(r), name: r.label + (known(r) ? ' (known)' : '') })) },
      { label: 'equal', type: 'line', borderColor: css('--soft'), borderDash: [4, 4], borderWidth: 1, pointRadius: 0, data: ends.map(v => ({ x: v, y: v })) }] },
    options: { plugins: { legend: { display: false }, tooltip: { callbacks: { label: c => `${c.raw.name || ''}: ${count(c.raw.x)} predicted, ${count(c.raw.y)} measured` } } },
      scales: { x: scale('predicted '), y: scale('measured ') } } });
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
  for (const [list, name, unit, x, y, known] of [[times, 'predicted against measured time', 'ms per step', r => 1e3 * r.predicted, r => 1e3 * r.seconds, r => r.known],
      [sizes, 'predicted against measured memory', 'MiB per rank', r => r.memory_foreseen / 2 ** 20, r => r.memory_grown / 2 ** 20, () => false]]) {
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
    const t = el('table', undefined, 'heat'), head = el('tr');
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
        cell.append(el('b', count(best.tokens)), el('span', layout(best)));
        cell.style.backgroundColor = `rgba(59, 111, 212, ${0.08 + 0.5 * best.tokens / most})`;
        line.append(cell);
      }
      t.append(line);
    }
    scroller(s, t, 'topologies', 'Scroll sideways for larger tensor-parallel sizes.');
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
  let made = null;
  choice(s, 'roofline', list.slice(0, 200), (r, holder) => {
    if (made) charts.splice(charts.indexOf(made), 1)[0].destroy();
    const ops = r.ops.filter(o => o[2] > 0 && o[1] > 0 && o[3] > 0), points = ops.map(o => ({ x: o[2] / o[3], y: o[2] / o[1], name: o[0], share: o[1] / r.seconds }));
    const knee = r.gemm_flops / r.bandwidth, left = Math.min(knee / 30, ...points.map(p => p.x / 2)), right = Math.max(knee * 30, ...points.map(p => p.x * 2));
    made = chart(holder, 'roofline ' + r.label, 360, { type: 'scatter',
      data: { datasets: [...[...new Set(points.map(p => p.name))].map((name, i) => ({ label: name, backgroundColor: COLORS[i % COLORS.length],
          pointStyle: i < COLORS.length ? 'circle' : 'rectRot', data: points.filter(p => p.name === name), pointRadius: 3 + 12 * Math.sqrt(points.find(p => p.name === name).share) })),
        { label: 'roof', type: 'line', borderColor: css('--ink'), borderWidth: 1.5, pointRadius: 0, data: [{ x: left, y: left * r.bandwidth }, { x: knee, y: r.gemm_flops }, { x: right, y: r.gemm_flops }] }] },
      options: { plugins: { legend: { labels: { boxWidth: 10, usePointStyle: true } }, tooltip: { callbacks: { label: c => c.raw.name ? `${c.raw.name}: ${count(c.raw.y)}FLOP/s, ${percent(c.raw.share)} of the step` : '' } } },
        scales: { x: axis('FLOP per byte', powers()), y: axis('FLOP/s per rank', Object.assign(powers(), { suggestedMax: 2 * Math.max(r.gemm_flops, ...points.map(p => p.y)) })) } } });
  });
}
const svg = (tag, attributes, text) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
  if (text !== undefined) node.textContent = text;
  return node;
};
// `wide`: in pixels. Names of tasks take as many lines as they need.
function drawTimeline(r, wide) {
  const left = 64, lane = 30, step = 130, used = [...new Set(r.timeline.flat().map(t => t[0]))].sort(), across = Math.max(1, Math.floor((wide - left) / step));
  const top = 14 + 18 * Math.ceil(used.length / across), end = Math.max(...r.timeline.flat().map(t => t[4])) || 1, high = top + lane * r.timeline.length + 28;
  const at = x => left + (wide - left - 10) * x / end, ink = css('--ink'), soft = css('--soft'), marks = wide < 500 ? 2 : 5;
  const picture = svg('svg', { viewBox: `0 0 ${wide} ${high}`, role: 'img', 'aria-label': 'pipeline timeline', 'font-family': 'system-ui, sans-serif', 'font-size': 12 });
  picture.append(svg('rect', { width: wide, height: high, fill: css('--box') }));
  used.forEach((kind, i) => {
    const x = left + step * (i % across), y = 8 + 18 * Math.floor(i / across);
    picture.append(svg('rect', { x, y, width: 12, height: 12, fill: TASKS[kind][1] }), svg('text', { x: x + 18, y: y + 10, fill: ink }, TASKS[kind][0]));
  });
  r.timeline.forEach((tasks, stage) => {
    const y = top + lane * stage;
    picture.append(svg('text', { x: 6, y: y + 18, fill: ink }, `stage ${stage}`), svg('rect', { x: left, y, width: at(end) - left, height: lane - 6, fill: css('--idle') }));
    for (const [kind, mb, chunk, from, to] of tasks) {
      const box = svg('rect', { x: at(from), y, width: Math.max(0.7, at(to) - at(from)), height: lane - 6, fill: TASKS[kind][1], 'fill-opacity': chunk % 2 ? 0.7 : 1, stroke: css('--box'), 'stroke-width': 0.5 });
      box.append(svg('title', {}, `${TASKS[kind][0]} ${mb}${chunk ? '.' + chunk : ''}: ${seconds(to - from)}, from ${seconds(from)}`));
      picture.append(box);
      if (at(to) - at(from) > 16) picture.append(svg('text', { x: (at(from) + at(to)) / 2, y: y + 16, fill: '#fff', 'text-anchor': 'middle', 'pointer-events': 'none' }, mb));
    }
  });
  for (let i = 0; i <= marks; ++i) {
    picture.append(svg('text', { x: at(end * i / marks), y: high - 8, fill: soft, 'text-anchor': i === marks ? 'end' : i ? 'middle' : 'start' }, seconds(end * i / marks || 0)));
  }
  return picture;
}
function timeline() {
  const list = good.filter(r => r.timeline && r.timeline.length > 1);
  if (!list.length) return;
  const idle = r => { const end = Math.max(...r.timeline.flat().map(t => t[4])); return 1 - r.timeline.flat().reduce((s, t) => s + t[4] - t[3], 0) / end / r.timeline.length; };
  const worst = list.slice().sort((a, b) => idle(b) - idle(a))[0];
  const s = section('Pipeline timeline', `The tasks of the last step as they ran, by stage; numbers are micro-batches, grey is idle time. ${worst.label} idles ${percent(idle(worst))} of the time` +
    (list.length > 1 ? ', the most of all.' : '.'));
  choice(s, 'timeline', list, (r, holder) => {
    const box = el('div', undefined, 'chart');
    holder.append(el('p', `Schedule ${r.schedule}; idle ${percent(idle(r))} of the time.`, 'soft'), box);
    const picture = drawTimeline(r, Math.max(300, box.clientWidth - 20));
    box.append(picture);
    saveButtons(holder, 'timeline ' + r.label, [['SVG', () => 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(new XMLSerializer().serializeToString(picture))],
      ['CSV', () => csvUrl([['stage', 'task', 'micro-batch', 'chunk', 'start', 'end'], ...r.timeline.flatMap((tasks, i) => tasks.map(t => [i, TASKS[t[0]][0], ...t.slice(1)]))])]]);
  });
}
const point = ([step, loss]) => ({ x: step, y: loss });
const curve = (label, points, color, more) => ({ label, data: points.map(point), borderColor: color, backgroundColor: color, pointRadius: 0, ...more });
function lossChart(s, height, sets, legend) {
  chart(s, 'loss', height, { type: 'line', data: { datasets: sets },
    options: { interaction: { mode: 'nearest', intersect: false }, plugins: { legend },
      scales: { x: axis('step', { type: 'linear', min: 1, max: Math.max(...sets.flatMap(set => set.data.map(p => p.x))), ticks: { precision: 0 } }), y: axis('loss, nats per token') } } });
}
// One curve, however often the run was stopped and continued.
function trainingLosses() {
  const { steps, evaluations } = data.training, told = evaluations.filter(e => e[1] !== null);
  const least = told.length ? told.reduce((a, b) => b[1] < a[1] ? b : a) : null, last = told.at(-1);
  const s = section('Loss', 'The training loss of each step' + (!least ? '.'
    : `, and the loss on held-out data: ${last[1].toFixed(4)} (perplexity ${perplexity(last[1])}) at step ${last[0]}` +
      (least[1] < last[1] ? `; the lowest was ${least[1].toFixed(4)} at step ${least[0]}.` : ', the lowest of all.')));
  const sets = [curve('training', steps, COLORS[0], { borderWidth: 1 })];
  if (evaluations.length) sets.unshift(curve('evaluation', evaluations, COLORS[1], { borderWidth: 2, pointRadius: evaluations.length > 60 ? 0 : 3 }));
  lossChart(s, 340, sets, { labels: { boxWidth: 12 } });
}
function losses() {
  if (data.training) return trainingLosses();
  const all = rows.filter(r => r.losses.length > 1), list = all.slice(0, 16), spread = data.loss_spread, named_below = printing() || list.length <= COLORS.length;
  if (!list.length) return;
  const s = section('Loss', (spread
    ? `Runs that differ only in their layout should coincide: over the first ${spread.steps} steps ` +
      (spread.most ? `the largest difference among ${spread.runs} is ${spread.most.toExponential(1)} nats.` : `the losses of ${spread.runs} do not differ at all.`) + ' Later, a jump of the loss can magnify the last digits.'
    : 'Loss of each step.') + (named_below ? '' : ' Point at a curve for its name.') + shown(list, all));
  const labels = { boxWidth: 12, generateLabels: c => Chart.defaults.plugins.legend.labels.generateLabels(c).map(l => Object.assign(l, { text: cut(l.text, narrow() ? 44 : 100) })) };
  lossChart(s, !named_below ? 360 : 340 + (printing() ? 6 : 20) * list.length, list.map((r, i) => curve(named(r), r.losses, COLORS[i % COLORS.length],
    { borderWidth: 1 + (list.length - i) % 3, borderDash: i < 8 ? [] : [5, 3] })), { display: named_below, labels });
}

// The whole page. Drawn again when the colours change: for another theme, for print.
function draw() {
  for (const made of charts.splice(0)) made.destroy();
  scrollers.length = 0;
  for (const id of ['main', 'facts', 'contents']) document.getElementById(id).replaceChildren();
  if (typeof Chart !== 'undefined') {
    Chart.defaults.color = css('--ink');
    Chart.defaults.borderColor = css('--line');
    Chart.defaults.font.family = 'system-ui, sans-serif';
    Chart.defaults.font.size = printing() ? 10 : 12;
    Chart.defaults.devicePixelRatio = printing() ? 3 : undefined;  // paper shows more than screens
  }
  header();
  const parts = [table, throughput, attribution, memory, predictions, heatmap, scaling, roofline, timeline];
  // Of a training run the losses are what was wanted; of a sweep they are a check.
  for (const part of data.continued ? [losses, ...parts] : [...parts, losses]) part();
  reproduce();
  for (const mark of scrollers) mark();
}
openAsAsked();
draw();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
addEventListener('beforeprint', () => { document.documentElement.dataset.theme = 'print'; draw(); });
addEventListener('afterprint', () => { delete document.documentElement.dataset.theme; draw(); });
document.documentElement.dataset.ready = 'yes';
