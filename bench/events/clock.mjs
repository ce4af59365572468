// Milliseconds of the machine's clock with a fraction, the clock that PostgreSQL stamps commits with. A process's own
// fine clock may run away from it by parts per thousand, so it is set anew before every measurement.
let offset = 0;

export function setClock() {
  const start = Date.now();
  let ticked = start;
  while (ticked === start) ticked = Date.now();
  offset = ticked - performance.now();
}
setClock();

export const now = () => offset + performance.now();
