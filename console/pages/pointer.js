// pointer: tells whether a button of the pointer is down. A click is lost when what is under it is replaced between
// press and release, so pages wait for the release before they draw anew.

const LONGEST_MS = 3000; // a list of choices swallows the release

let down = null; // until the release: {promise, resolve, ends}

// The next press may come before the release of the one before has been told.
function press() {
  if (down && !down.ends) return;
  down = {};
  down.promise = new Promise((done) => {
    down.resolve = done;
  });
  const mine = down;
  setTimeout(() => mine === down && release(), LONGEST_MS);
}

// The click comes before what a timer calls.
function release() {
  const was = down;
  if (was) was.ends = true;
  setTimeout(() => {
    if (down === was) down = null;
    was?.resolve();
  });
}

addEventListener("pointerdown", press, true);
for (const end of ["pointerup", "pointercancel", "dragend"]) addEventListener(end, release, true);
// That of the window, which does not bubble: a press blurs what had the focus before.
addEventListener("blur", release);

// Resolves when no button is down.
export async function released() {
  while (down) await down.promise;
}
