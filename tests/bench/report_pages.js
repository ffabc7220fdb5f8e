'use strict';
// As report_browser.js, in pages of one kind: many long names in a narrow window, parts of one training run, a single run.
(() => {
  document.documentElement.dataset.opened = Math.round(performance.now());
  const wrong = [];
  const check = (good, what) => { if (!good) wrong.push(what); };
  const drawn = id => Chart.getChart(document.querySelector(`#${id} canvas`)), said = id => document.getElementById(id).textContent;
  const ticks = drawn('throughput').scales.y.ticks.map(t => [].concat(t.label).join('')), first = said('finding');
  const x = drawn('throughput').scales.x;
  check(document.documentElement.scrollWidth <= innerWidth, `the page is ${document.documentElement.scrollWidth} wide in a window of ${innerWidth}`);
  check(new Set(ticks).size === good.length, `names that look alike: ${ticks}`);
  check([...document.querySelectorAll('.fact b')].every(b => b.textContent !== '–'), 'an empty tile');
  check(x.height >= 40, `${x.height} for the labels of an axis and its title`);
  if (data.continued) {
    check(first.startsWith('A training run in 3 parts; ') && first.includes('T14:00:00Z reached'), first);
    check(!document.getElementById('scaling') && !/fastest|is first/.test(document.body.innerText), 'parts of one run are compared');
    check(rows.every((r, i) => r.label.endsWith(`T1${2 + i}:00:00Z`)), 'the parts are not in their order');
  } else if (rows.length === 1) {
    check(/^run: [\d.]+k tokens\/s\.$/.test(first) && !said('throughput').includes('is first'), first);
    check(rows[0].predicted === 0.05 && !rows[0].known, 'not its own prediction');
  } else {
    check(first.includes('is the fastest of 10 configurations of the same work') && first.includes('it cannot be told apart from') &&
      first.includes('10 did other work'), first);
    check(said('throughput').includes('Per device, ') && said('throughput').includes('is first of 10'), said('throughput'));
    check(said('loss').includes('do not differ at all') && said('loss').includes('16 of 20 are shown.'), said('loss'));
    check(drawn('loss').options.plugins.legend.display === false, 'a legend of 16 names');
    const roof = drawn('roofline');
    check(roof.scales.y.max >= 2 * Math.max(...roof.data.datasets.flatMap(d => d.data.map(p => p.y))), 'no room above the roof');
  }
  document.documentElement.dataset.result = wrong.length ? wrong.join('; ') : 'ok';
})();
