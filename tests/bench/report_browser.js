'use strict';
// Names of every kind that could hurt, and many rows: nothing runs, nothing is lost, and a run that failed is not ranked.
(() => {
  const expected = JSON.parse(document.getElementById('data').textContent).rows.sort((a, b) => b.tokens - a.tokens);

  check(document.documentElement.dataset.ready === 'yes', 'the page did not finish');
  check(body().length === expected.length, `${body().length} rows of ${expected.length}`);
  check(document.querySelectorAll('img, iframe, object, embed').length === 0, 'a name became markup');
  check(!globalThis.pwned && document.title === 'Browser test', 'a name ran as code');
  const labels = body().map(tr => tr.querySelector('.name').textContent);
  check(expected.every((r, i) => labels[i] === r.label), 'labels are not shown as they are');
  check(document.querySelectorAll('canvas').length >= 5, 'charts are missing');
  for (const canvas of document.querySelectorAll('canvas')) {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let i = 0; i < pixels.length && colours.size < 3; i += 16) colours.add(`${pixels[i]},${pixels[i + 1]},${pixels[i + 2]}`);
    check(colours.size >= 3, `chart ${canvas.getAttribute('aria-label')} is empty`);
  }
  for (const id of ['throughput', 'where-the-step-time-goes', 'memory-per-rank', 'topologies', 'roofline', 'pipeline-timeline', 'loss', 'run-it-again']) {
    check(document.getElementById(id), `section ${id} is missing`);
  }
  check(document.querySelectorAll('#pipeline-timeline svg rect title').length > 3, 'no tasks in the timeline');
  const loss = Chart.getChart(document.querySelector('#loss canvas'));
  check(loss.scales.x.type === 'linear' && loss.scales.x.max === Math.max(...expected.flatMap(r => r.losses.map(l => l[0]))), 'losses do not lie at their steps');
  check(expected.filter(r => r.known).length === 1, 'not one known run');
  check(cells('predicted').every((x, i) => x.endsWith('(known)') === expected[i].known), 'the known run is not marked');
  check(cells('error').every((x, i) => !expected[i].known || x === '–'), 'the known run has an error');
  check(body().every((tr, i) => (expected[i].reason !== '') === (tr.querySelector('.why') !== null)), 'a reason does not stand below its run');
  const failed = expected.filter(r => r.status === 'fail'), ranked = Chart.getChart(document.querySelector('#throughput canvas')).data.labels;
  check(failed.length > 0, 'no run that failed');
  for (const r of failed) {
    check(!ranked.includes(r.label) && !document.getElementById('throughput').textContent.includes(r.label + ' '), `${r.label} is ranked`);
    check(!document.getElementById('finding').textContent.includes(r.label + ' '), `${r.label} is the fastest`);
  }
  check(cells('tokens/s').every((x, i) => (expected[i].status === 'ok') === (x !== '–')), 'speed of a run that does not count');

  heading('tp').click();
  const down = cells('tp').map(Number);
  check(down.every((x, i) => i === 0 || down[i - 1] >= x), `descending: ${down.slice(0, 9)}`);
  heading('tp').click();
  const up = cells('tp').map(Number);
  check(up.every((x, i) => i === 0 || up[i - 1] <= x), `ascending: ${up.slice(0, 9)}`);
  check(down[0] !== up[0], 'sorting changed nothing');

  type('REJECTED');
  check(body().length === expected.filter(r => r.status === 'rejected').length && body().length > 0, 'the filter keeps the wrong rows');
  type('no such run');
  check(body().length === 0, 'the filter keeps rows that do not match');
  type('');
  check(body().length === expected.length, 'rows do not come back');
  const run = (label, seq, predicted, seconds) => ({ label, model: 'm', seq, precision: 'fp32', global: 8, predicted, seconds });
  const both = [run('a', 64, 2, 3), run('b', 64, 3, 2)], other = [run('c', 128, 4, 5), run('d', 128, 5, 6)];
  check(firstChoice(both) === "; the planner's first choice, a, reached 66.67 % of the fastest", `first choice: ${firstChoice(both)}`);
  check(firstChoice([both[0], other[1]]) === '', 'a choice between runs of other work');  // the shorter sequence is faster, and no choice
  check(firstChoice(both.concat(other)).includes('fastest in 1 of 2 comparisons of equal work, and reached 66.67 %'), 'first choices');
  const place = 'spec.yaml:16:30 ', two = `${place}tp: 3 does not divide 4;   fix: use 1 or 2; ${place}tp: 3 does not divide 128;   fix: use 1`;
  check(firstProblem(two) === 'tp: 3 does not divide 4;   fix: use 1 or 2', `first problem: ${firstProblem(two)}`);
  check(firstProblem('word '.repeat(60)) === 'word '.repeat(39) + 'word…', `long problem: ${firstProblem('word '.repeat(60))}`);
  const ran = (label, low, high, seq = 64) => ({ label, low, high, model: 'm', seq, precision: 'fp32', global: 8, devices: 1 });
  const ranks = list => { const s = standing(list); return `${s.best.label} of ${s.same.length}, ${s.others} others${s.close}`; };
  check(ranks([ran('a', 5, 7), ran('b', 3, 4)]) === 'a of 2, 0 others', 'standing apart');
  check(ranks([ran('a', 2, 7), ran('b', 3, 4), ran('c', 3, 6, 128)]) === 'a of 2, 1 others; it cannot be told apart from b', 'standing among other work');
  check(ranks([ran('a', 2, 7), ran('b', 3, 4), ran('c', 1, 2), ran('d', 1, 2)]).endsWith('from b and 2 others'), 'standing of many');
  check(csvField('=1+1') === "'=1+1" && csvField('-1.5') === '-1.5' && csvField('a"b') === '"a""b"', 'CSV fields');
  finish();
})();
