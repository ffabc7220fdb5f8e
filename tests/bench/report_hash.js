'use strict';
// report.html#sort=tp&filter=dp2 opens the table sorted and filtered.
(() => {
  check(body().length === 3 && cells('tp').join() === '1,1,1' && document.getElementById('filter').value === 'dp2', `rows: ${cells('run')}`);
  check(heading('tp').parentNode.getAttribute('aria-sort') === 'descending', 'not sorted');
  finish();
})();
