// Rates of counters, from looks at them: how much a counter grows in a second, over the last half minute.

const KEPT_MS = 30000;
// Looks closer together than this tell nothing new.
const APART_MS = 900;
const COUNTERS_MAX = 2000;

export class Rates {
  constructor() { this.looks = new Map(); }

  // A counter that fell has begun again, and what was known of it is forgotten.
  note(name, count, at = Date.now()) {
    if (count === undefined || count === null) return;
    const known = this.looks.get(name) || [];
    const last = known.at(-1);
    if (last && at - last.at < APART_MS) return;
    const kept = last && count < last.count ? [] : known.filter(look => at - look.at <= KEPT_MS);
    this.looks.delete(name);
    this.looks.set(name, [...kept, { at, count }]);
    if (this.looks.size > COUNTERS_MAX) this.looks.delete(this.looks.keys().next().value);
  }

  // By the second; undefined until there are two looks.
  of(name) {
    const known = this.looks.get(name) || [];
    if (known.length < 2) return undefined;
    const [first, last] = [known[0], known.at(-1)];
    return (last.count - first.count) * 1000 / (last.at - first.at);
  }

  // Milliseconds until so much more is counted, at the rate of the last looks.
  left(name, rest) {
    const rate = this.of(name);
    return rate > 0 ? rest * 1000 / rate : undefined;
  }
}
