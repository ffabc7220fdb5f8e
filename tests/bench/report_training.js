'use strict';
// A training run in three parts, with its metrics: 5000 steps, a spike at 2345, five evaluations of which the fourth is the best.
(() => {
  const first = said('finding'), data = JSON.parse(said('data'));
  check(first.startsWith('A training run in 3 parts: loss 3.0000 at step 5000, evaluation loss 2.7500 at step 5000; ') && first.endsWith(' tokens/s in part 3.'), first);
  check(!document.getElementById('scaling') && !/fastest|is first|does most/.test(document.body.innerText), 'parts of one run are compared');
  check(rows.map(r => r.label).join() === [1, 2, 3].map(i => `part ${i}, 2026-04-01T1${i + 1}:00:00Z`).join(), 'the parts are not in their order');
  check(body().map(tr => tr.querySelector('.name').textContent).join() === rows.map(r => r.label).join(), 'the rows are not in their order');
  check(document.querySelector('main section').id === 'loss', 'the loss is not what stands first');
  const chart = drawn('loss'), [evaluation, training] = ['evaluation', 'training'].map(name => chart.data.datasets.find(set => set.label === name));
  check(chart.data.datasets.length === 2 && evaluation.borderColor !== training.borderColor, 'two curves');
  check(evaluation.data.map(p => `${p.x}:${p.y}`).join() === '1000:3.25,2000:3,3000:2.75,4000:2.5,5000:2.75', `evaluations: ${JSON.stringify(evaluation.data)}`);
  check(training.data[0].x === 1 && training.data.at(-1).x === 5000 && training.data.at(-1).y === 3 && training.data.some(p => p.x === 2345 && p.y === 9), 'training');
  check(training.data.length > 1000 && training.data.length < 2500 && training.data.every(p => p.x === 2345 || Math.abs(p.y - (5 - p.x / 2500)) < 1e-6), `${training.data.length} points`);
  check(chart.scales.x.min === 1 && chart.scales.x.max === 5000 && chart.scales.y.options.title.text === 'loss, nats per token', 'axes');
  check(said('loss').includes(': 2.7500 (perplexity 15.64) at step 5000; the lowest was 2.5000 at step 4000.'), said('loss'));
  const tiles = Object.fromEntries([...document.querySelectorAll('.fact')].map(t => [t.children[0].textContent, `${t.children[1].textContent} ${t.children[2].textContent}`]));
  check(tiles['loss at step 5000'] === '3.0000 nats per token' && tiles['evaluation loss'] === '2.7500 perplexity 15.64', JSON.stringify(tiles));
  check([...document.querySelectorAll('.fact b')].every(b => b.textContent !== '–'), 'an empty tile');
  const shares = drawn('where-the-step-time-goes').data;
  check(shares.labels.length === 3 && shares.datasets.length === 10 && said('where-the-step-time-goes').includes('of the first rank'), said('where-the-step-time-goes'));
  check(shares.datasets.find(s => s.label === 'matrix products').data.every(x => near(x, 400 / 13, 1e-6)) && shares.datasets.find(s => s.label === 'host').data.every(x => near(x, 100 / 13, 1e-6)), 'shares of the step');
  check(!document.body.innerText.includes('MFU'), 'MFU of an unknown peak');
  check(data.training.steps.length === training.data.length, 'points are lost');
  finish();
})();
