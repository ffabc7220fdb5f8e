'use strict';
// A sweep as people run it: every cell, bar and point against the record that it is of.
(() => {
  const runs = JSON.parse(said('data')).rows.sort((a, b) => b.tokens - a.tokens), ran = runs.filter(r => r.tokens > 0);
  const failed = runs.filter(r => !(r.tokens > 0)), byName = name => runs.find(r => r.label === name);
  const first = ran[0], MiB = 2 ** 20;
  check(ran.length === 8 && failed.length === 3 && first.label === 'dp2-zero1', `${ran.length} runs, ${first.label} first`);

  // What is said above and below must agree, although another run does most per device.
  const one = byName('one-rank');
  check(one.per_device > first.per_device, 'the example');
  check(said('finding').startsWith('dp2-zero1 is the fastest of 8 configurations that ended well: ') && said('finding').endsWith('3 have no figures: their rows say why.'), said('finding'));
  check(said('finding').includes(' Other programs took cores from 1 of them: ') && body().filter(tr => tr.textContent.includes('other programs took 2.5 of 4 cores')).length === 1, said('finding'));
  check(!/one-rank is|is first/.test(document.body.innerText), 'another first run');
  check(said('throughput').includes(`Per device, one-rank does most: ${count(one.per_device)} tokens/s on one device, where dp2-zero1 does ${count(first.per_device)} on each of 2.`), said('throughput'));

  // Tiles: one row of them, or two that are as long.
  const tiles = [...document.querySelectorAll('.fact')], tops = new Set(tiles.map(t => t.offsetTop));
  check(tiles.length === 6 && tops.size === 1, `${tiles.length} tiles in ${tops.size} rows`);
  const tile = Object.fromEntries(tiles.map(t => [t.children[0].textContent, [t.children[1].textContent, t.children[2].textContent]]));
  const told = (title, value, share) => check(tile[title] && near(number(tile[title][0]), value, share), `${title}: ${tile[title]}, not ${value}`);
  told('tokens per second', first.tokens, 0.006); told('time of a step', first.seconds, 0.006); told('tokens/s per device', first.per_device, 0.006);
  told('MFU (mpt)', first.mfu, 0.01); told('of the GEMM rate', first.gemm, 0.01); told('memory per rank', first.memory_rank, 0.001);
  check(tile['tokens per second'][1] === `95 %: ${count(first.low)} – ${count(first.high)}`, `interval: ${tile['tokens per second'][1]}`);
  check(near(number(tile['time of a step'][1].slice(2)), (first.high_s - first.low_s) / 2 / first.seconds, 0.01), `±: ${tile['time of a step'][1]}`);
  check(tile['memory per rank'][1] === `planned; measured ${(first.memory_grown / MiB).toFixed(2)} MiB`, tile['memory per rank'][1]);
  const size = [count(999), count(27049), count(2.5e6), count(4e9), count(1.5e12), bytes(3 * MiB), bytes(1.5 * 2 ** 30), seconds(0.0379), seconds(2.5), seconds(499.9), signed(0.0512), signed(-0.3), percent(0.1234)].join(' ');
  check(size === '999 27.0k 2.50M 4.00G 1.50T 3.00 MiB 1.50 GiB 37.9 ms 2.50 s 500 s +5.1 % −30.0 % 12.34 %', size);

  // The table: settings that are the same stand above it, and every cell is what the record says.
  check(column('T') < 0 && column('precision') < 0 && said('all-runs').includes('The same in all: model tiny, sequence length 128, precision fp32'), 'columns of equal settings');
  const figures = { 'tokens/s': [r => r.tokens, 0.006], 'sec/it': [r => r.seconds, 1e-3], 'MFU': [r => r.mfu, 0.01], 'HFU': [r => r.hfu, 0.01], 'GEMM': [r => r.gemm, 0.01],
    '±': [r => r.tokens && (r.high_s - r.low_s) / 2 / r.seconds, 0.02], 'predicted': [r => r.predicted, 1e-3], 'per device': [r => r.devices > 1 && r.per_device, 0.006],
    'error': [r => !r.known && r.predicted && r.tokens && r.predicted / r.seconds - 1, 0.06], 'dp': [r => r.dp], 'tp': [r => r.tp], 'pp': [r => r.pp], 'ZeRO': [r => r.zero], 'accum': [r => r.accum],
    'memory/rank': [r => r.memory_rank, 1e-3], 'measured': [r => r.memory_grown, 1e-3] };
  for (const [name, [of, share]] of Object.entries(figures)) {
    cells(name).forEach((text, i) => {
      const value = of(runs[i]), none = !value && share;  // settings may be 0, figures then are not there
      check(none ? text === '–' : near(number(text), value, share || 0), `${name} of ${runs[i].label}: ${text}, not ${value}`);
    });
  }
  check(cells('status').every((x, i) => x === runs[i].status) && body().every((tr, i) => tr.classList.contains('failed') === failed.includes(runs[i])), 'status');

  // Sorting: numbers from the largest, words from A, and what has no value last whichever way.
  const order = () => body().map(tr => tr.querySelector('.name').textContent);
  const names = list => list.map(r => r.label).join(), by = of => (a, b) => of(a) - of(b);
  for (const [name, of] of [['tokens/s', r => r.tokens], ['sec/it', r => r.seconds], ['MFU', r => r.mfu]]) {
    const up = ran.slice().sort(by(of));
    heading(name).click();
    check(order().slice(0, 8).join() === names(up.slice().reverse()) && order().slice(8).every(x => names(failed).includes(x)), `${name}, down: ${order()}`);
    check(heading(name).parentNode.getAttribute('aria-sort') === 'descending', `${name}: no mark`);
    heading(name).click();
    check(order().slice(0, 8).join() === names(up) && order().slice(8).every(x => names(failed).includes(x)), `${name}, up: ${order()}`);
    check(heading(name).parentNode.getAttribute('aria-sort') === 'ascending' && document.querySelectorAll('#runs [aria-sort]').length === 1, `${name}: marks`);
  }
  heading('run').click();
  check(order().join() === names(runs.slice().sort((a, b) => a.label < b.label ? -1 : 1)), `names: ${order()}`);
  type('dp2 ok');
  check(order().join() === 'dp2,dp2-zero1,dp2-zero3', `filtered: ${order()}`);
  type('');

  // A table that is wider than its frame says so, at the side where there is more.
  const box = document.querySelector('#all-runs .scroll'), frame = box.parentNode, hint = document.querySelector('#all-runs .hint');
  const sides = () => ['before', 'after'].filter(side => frame.classList.contains(side)).join();
  const move = to => { box.scrollLeft = to; box.dispatchEvent(new Event('scroll')); };
  check(box.scrollWidth > box.clientWidth && sides() === 'after' && !hint.hidden, `to the right: ${sides()}`);
  const shadow = side => getComputedStyle(frame, `::${side}`).opacity;
  check(shadow('after') === '1' && shadow('before') === '0', `shadows: ${shadow('before')}, ${shadow('after')}`);
  check(hint.textContent === `${document.querySelectorAll('#runs th').length} columns: scroll sideways for all of them.`, hint.textContent);
  move(100);
  check(sides() === 'before,after', `in the middle: ${sides()}`);
  move(1e6);
  check(sides() === 'before' && !hint.hidden, `at the end: ${sides()}`);
  move(0);
  const heat = document.querySelector('#topologies .frame');
  check(!/before|after/.test(heat.className) && document.querySelector('#topologies .hint').hidden, 'a table that fits says that it scrolls');

  // Charts.
  const data_of = (id, at) => drawn(id, at).data, axes = (id, at) => ['x', 'y'].map(k => drawn(id, at).scales[k].options.title.text).join(' | ');
  const labels = names(ran), same = (a, b, what) => check(a.length === b.length && a.every((x, i) => near(x, b[i])), `${what}: ${a} not ${b}`);
  const bars = data_of('throughput').datasets[0];
  check(data_of('throughput').labels.join() === labels && axes('throughput') === 'tokens per second | ', `throughput: ${data_of('throughput').labels}, ${axes('throughput')}`);
  same(bars.data, ran.map(r => r.tokens), 'bars'); same(bars.low, ran.map(r => r.low), 'low'); same(bars.high, ran.map(r => r.high), 'high');
  check(drawn('throughput').scales.x.min === 0 && drawn('throughput').scales.x.max >= Math.max(...bars.high), 'scale of the bars');

  const across = drawn('throughput').scales.x, whiskers = strokes(intervals, drawn('throughput')).filter(call => call[0] === 'lineTo' || call[0] === 'moveTo');
  ran.forEach((r, i) => {
    const [[, a, from], [, b, to]] = whiskers.slice(6 * i, 6 * i + 2), bar = drawn('throughput').getDatasetMeta(0).data[i];
    check(near(a, across.getPixelForValue(r.low)) && near(b, across.getPixelForValue(r.high)) && from === bar.y && to === bar.y, `whisker of ${r.label}`);
    check(near(bar.x, across.getPixelForValue(r.tokens), 1e-3), `bar of ${r.label} ends at ${bar.x}`);
  });

  const parts = { 'matrix products': 'matmul', 'attention': 'attention', 'other compute': 'other', 'optimizer': 'optimizer', 'copies': 'copy', 'waiting: dp': 'comm_dp',
    'waiting: tp': 'comm_tp', 'waiting: pp (bubble)': 'comm_pp', 'data': 'data', 'host': 'host' };
  const shares = data_of('where-the-step-time-goes'), whole = r => Object.values(r.parts).reduce((a, b) => a + b, 0);
  check(shares.labels.join() === labels && axes('where-the-step-time-goes') === '% of the time of a step | ', 'attribution');
  for (const set of shares.datasets) same(set.data, ran.map(r => 100 * r.parts[parts[set.label]] / whole(r)), set.label);
  check(Object.entries(parts).every(([name, key]) => first.parts[key] / whole(first) < 5e-4 || shares.datasets.some(s => s.label === name)), 'a part is missing');
  check(new Set(shares.datasets.map(s => s.backgroundColor)).size === shares.datasets.length, 'two parts of one colour');
  check(drawn('where-the-step-time-goes').scales.x.max === 100 && drawn('where-the-step-time-goes').scales.x.options.stacked, 'shares are not stacked to 100 %');
  check(said('where-the-step-time-goes').includes(`In dp2-zero1, ${percent(first.parts.matmul / whole(first))} is matrix products.`), said('where-the-step-time-goes'));

  const planned = runs.filter(r => r.memory_rank > 0), sizes = data_of('memory-per-rank');
  check(axes('memory-per-rank') === 'MiB per rank | ' && sizes.labels.length === planned.length, axes('memory-per-rank'));
  same(planned.map((_, i) => sizes.datasets.reduce((sum, set) => sum + set.data[i], 0)), planned.map(r => r.memory_rank / MiB), 'memory');
  for (const set of sizes.datasets) same(set.data, planned.map(r => r.terms[JSON.parse(said('data')).terms.indexOf(set.label)] / MiB), set.label);
  same(drawn('memory-per-rank').options.outline.measured, planned.map(r => r.memory_grown / MiB), 'outlines');

  const room = drawn('memory-per-rank').scales.x, outlines = strokes(measuredBox, drawn('memory-per-rank')).filter(call => call[0] === 'strokeRect'), grown = planned.filter(r => r.memory_grown > 0);
  check(outlines.length === grown.length && grown.length === 8, `${outlines.length} outlines`);
  grown.forEach((r, i) => check(near(outlines[i][1], room.getPixelForValue(0)) && near(outlines[i][1] + outlines[i][3], room.getPixelForValue(r.memory_grown / MiB)), `outline of ${r.label}`));

  const times = data_of('predicted-and-measured', 0).datasets, told_times = ran.filter(r => r.predicted > 0);
  check(axes('predicted-and-measured', 0) === 'predicted ms per step | measured ms per step' && axes('predicted-and-measured', 1) === 'predicted MiB per rank | measured MiB per rank', 'units of predictions');
  same(times[0].data.map(p => p.x), told_times.map(r => 1e3 * r.predicted), 'predicted'); same(times[0].data.map(p => p.y), told_times.map(r => 1e3 * r.seconds), 'measured');
  same(data_of('predicted-and-measured', 1).datasets[0].data.map(p => p.y), ran.map(r => r.memory_grown / MiB), 'grown');
  same(data_of('predicted-and-measured', 1).datasets[0].data.map(p => p.x), ran.map(r => r.memory_foreseen / MiB), 'foreseen');
  check(times[0].backgroundColor.every((color, i) => (color !== times[0].borderColor) === told_times[i].known) && told_times.some(r => r.known), 'the known run is not hollow');
  for (const at of [0, 1]) {
    const { x, y } = drawn('predicted-and-measured', at).scales, line = data_of('predicted-and-measured', at).datasets[1].data;
    check(x.min === 0 && x.min === y.min && x.max === y.max && line.every(p => p.x === p.y) && line[1].x === x.max, `ends: ${x.min}, ${x.max}, ${y.min}, ${y.max}`);
    check(/^[1-9]\.?\d?0*$/.test(String(x.max)) && data_of('predicted-and-measured', at).datasets[0].data.every(p => Math.max(p.x, p.y) < x.max), `an axis to ${x.max}`);
  }
  const errors = told_times.filter(r => !r.known).map(r => Math.abs(r.predicted / r.seconds - 1)).sort(by(x => x)), middle = errors.length % 2 ? errors[errors.length >> 1] : (errors[errors.length / 2] + errors[errors.length / 2 - 1]) / 2;
  check(said('predicted-and-measured').includes(`median error ${(100 * middle).toFixed(2)} %`), said('predicted-and-measured'));

  const rowsOf = [...document.querySelectorAll('#topologies tr')].map(tr => [...tr.children].map(c => c.textContent));
  check(rowsOf[0].join() === 'pp \\ tp,1,2,3' && rowsOf.slice(1).map(r => r[0]).join() === '1,2,4', `topologies: ${rowsOf[0]}`);
  check(rowsOf[1][1] === count(first.tokens) + 'dp2 tp1 pp1 zero1' && rowsOf[2][2] === count(byName('tp2-pp2').tokens) + 'dp1 tp2 pp2', `best of each: ${rowsOf[1]}`);
  check(rowsOf[1][3] === 'rejected: tp3 cannot; fix: leave it' && rowsOf[3][2] === 'not tried', `nothing ran: ${rowsOf[1][3]}`);
  const shade = (r, c) => Number(document.querySelectorAll('#topologies tr')[r].children[c].style.backgroundColor.match(/([\d.]+)\)$/)[1]);
  check(shade(1, 1) > shade(1, 2) && shade(1, 2) > shade(2, 2), 'shades');

  const scale = data_of('scaling').datasets;
  same(scale[0].data.map(p => p.x), [1, 2, 4], 'ranks'); same(scale[0].data.map(p => p.y), [one, first, byName('pp4')].map(r => r.tokens), 'best of each size');
  same(scale[1].data.map(p => p.y), [1, 2, 4].map(n => n * one.tokens), 'ideal');
  check(said('scaling').includes(`${percent(byName('pp4').tokens / one.tokens / 4)} efficiency at 4 ranks`) && drawn('scaling').scales.y.min === 0, said('scaling'));

  const roof = data_of('roofline').datasets, knee = first.gemm_flops / first.bandwidth;
  for (const [name, spent, flops, moved] of first.ops) {
    const p = roof.find(set => set.label === name).data[0];
    check(near(p.x, flops / moved) && near(p.y, flops / spent) && near(p.share, spent / first.seconds), `${name}: ${p.x}, ${p.y}, ${p.share}`);
  }
  const [left, corner, right] = roof.at(-1).data;
  check(near(corner.x, knee) && near(corner.y, first.gemm_flops) && right.y === corner.y && near(left.y, left.x * first.bandwidth) && left.x < knee && knee < right.x, 'roof');
  check(axes('roofline') === 'FLOP per byte | FLOP/s per rank' && drawn('roofline').scales.x.type === 'logarithmic' && drawn('roofline').scales.y.type === 'logarithmic', axes('roofline'));

  const staged = ran.filter(r => r.timeline), picture = document.querySelector('#pipeline-timeline svg'), wide = picture.viewBox.baseVal.width;
  const tasks = staged[0].timeline.flat(), end = Math.max(...tasks.map(t => t[4])), drawnTasks = [...picture.querySelectorAll('rect')].filter(box => box.querySelector('title'));
  check(drawnTasks.length === tasks.length && document.querySelectorAll('#pipeline-timeline option').length === staged.length, `${drawnTasks.length} tasks of ${tasks.length}`);
  const at = x => 64 + (wide - 74) * x / end, attribute = (box, name) => Number(box.getAttribute(name));
  tasks.forEach(([kind, batch, , from, to], i) => {
    const box = drawnTasks[i], title = box.querySelector('title').textContent;
    check(near(attribute(box, 'x'), at(from), 1e-6) && near(attribute(box, 'width'), at(to) - at(from), 1e-6) && attribute(box, 'x') + attribute(box, 'width') <= wide, `task ${i} from ${attribute(box, 'x')}`);
    check(title.startsWith(`${['forward', 'backward'][kind]} ${batch}: ${seconds(to - from)}`), title);
  });
  const lanes = staged[0].timeline.flatMap((stage, i) => stage.map(() => i));
  check(drawnTasks.every((box, i) => attribute(box, 'y') - attribute(drawnTasks[0], 'y') === 30 * lanes[i]), 'stages are not one below the other');
  check(new Set(drawnTasks.map(box => box.getAttribute('fill'))).size === 2, 'forward and backward look alike');
  const idle = r => 1 - r.timeline.flat().reduce((sum, t) => sum + t[4] - t[3], 0) / r.timeline.length / Math.max(...r.timeline.flat().map(t => t[4]));
  const worst = staged.reduce((a, b) => idle(b) > idle(a) ? b : a);
  check(said('pipeline-timeline').includes(`${worst.label} idles ${percent(idle(worst))} of the time, the most of all.`), said('pipeline-timeline'));
  const select = document.querySelector('#pipeline-timeline select');
  select.value = String(staged.indexOf(byName('pp4'))); select.dispatchEvent(new Event('change'));
  check(document.querySelectorAll('#pipeline-timeline svg text').length > 0 && [...document.querySelectorAll('#pipeline-timeline svg text')].filter(t => /^stage/.test(t.textContent)).length === 4, 'the chosen run is not drawn');

  check(axes('loss') === 'step | loss, nats per token', axes('loss'));
  data_of('loss').datasets.forEach((set, i) => {
    const run = runs.filter(r => r.losses.length > 1)[i];
    check(set.label === run.label && set.data.length === run.losses.length && set.data.every((p, k) => p.x === run.losses[k][0] && p.y === run.losses[k][1]), `loss of ${run.label}`);
  });
  check(new Set(data_of('loss').datasets.map(s => s.borderColor + s.borderDash)).size === 8, 'two curves look alike');

  // What is saved is what is shown.
  const csv = chartCsv(drawn('throughput'));
  check(csv.length === 9 && csv[0].join() === ',tokens/s,low,high' && csv[1].join() === ['dp2-zero1', first.tokens, first.low, first.high].join(), `CSV: ${csv[1]}`);
  check(chartCsv(drawn('scaling'))[1].slice(2).join() === [1, one.tokens].join() && chartCsv(drawn('scaling'))[0].join() === 'series,name,x,y', 'CSV of points');
  let saved = null;
  const click = HTMLAnchorElement.prototype.click;
  HTMLAnchorElement.prototype.click = function () { saved = [this.download, decodeURIComponent(this.href.split(',').slice(1).join(','))]; };
  [...document.querySelectorAll('#throughput .save')].find(b => b.textContent === 'save CSV').click();
  check(saved && saved[0] === 'throughput.csv' && saved[1].split('\n')[1] === csv[1].join(), `saved: ${saved}`);
  HTMLAnchorElement.prototype.click = click;

  const again = [...document.querySelectorAll('#run-it-again details')];
  check(again.length === runs.length && again.every((d, i) => d.querySelector('summary').textContent === `${runs[i].label} — ${runs[i].status}` && d.querySelector('pre').textContent === runs[i].command), 'commands');
  check(failed.every(r => again[runs.indexOf(r)].textContent.includes(r.reason) && again[runs.indexOf(r)].textContent.includes(r.log_tail)) && again.every(d => !d.open), 'reasons');
  const links = [...document.querySelectorAll('nav a')];
  check(links.length === document.querySelectorAll('main section').length && links.every(a => document.querySelector(a.hash)), 'contents');
  finish();
})();
