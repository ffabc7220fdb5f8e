'use strict';
// Stands before the checks of each page. What they find goes to data-result: "ok", or what is wrong; in a frame also to the page around it.
const wrong = [];
const check = (right, what) => { if (!right) wrong.push(what); };
const near = (a, b, share = 1e-9) => Math.abs(a - b) <= share * Math.max(Math.abs(a), Math.abs(b));
const drawn = (id, at = 0) => Chart.getChart(document.querySelectorAll(`#${id} canvas`)[at]);
const said = id => document.getElementById(id).textContent;
const body = () => [...document.querySelectorAll('#runs tbody tr')];
const column = name => [...document.querySelectorAll('#runs th')].findIndex(th => th.textContent === name);
const cells = name => { const at = column(name); return body().map(tr => tr.children[at].textContent); };
const heading = name => document.querySelectorAll('#runs th button')[column(name)];
const type = text => { const filter = document.getElementById('filter'); filter.value = text; filter.dispatchEvent(new Event('input')); };
// The number that a text begins with, in its unit; null for a dash.
function number(text) {
  if (text === '–') return null;
  const [, sign, digits, unit] = text.match(/^([+−±-]?)([\d.]+(?:e[+-]\d+)?)\s*([a-zA-Z%]*)/);
  const scale = { '': 1, k: 1e3, M: 1e6, G: 1e9, '%': 0.01, MiB: 2 ** 20, GiB: 2 ** 30, s: 1, ms: 1e-3 }[unit] ?? 1;
  return (sign === '−' || sign === '-' ? -1 : 1) * Number(digits) * scale;
}
// What a plugin draws over a chart: [method, ...numbers] of each call.
function strokes(plugin, chart) {
  const calls = [], ctx = new Proxy({}, { get: (_, name) => (...numbers) => calls.push([name, ...numbers]), set: () => true });
  plugin.afterDatasetsDraw({ ctx, data: chart.data, scales: chart.scales, options: chart.options, chartArea: chart.chartArea, getDatasetMeta: i => chart.getDatasetMeta(i) });
  return calls;
}
function finish() {
  const found = { opened: Math.round(performance.now()), result: wrong.length ? wrong.join('; ') : 'ok' };
  Object.assign(document.documentElement.dataset, found);
  if (parent !== window) parent.postMessage(found, '*');
}
addEventListener('error', event => { wrong.push(event.message); finish(); });
