import type { Db } from './database.ts'

/**
 * A prepared statement that is built at its first use and then kept with its database, so that no request pays for the
 * query builder. `build` ends in `.prepare(name)`; placeholders outside of inserts are not encoded, so instants go in as
 * ISO text.
 */
export function lazyPrepared<Q>(build: (db: Db) => Q): (db: Db) => Q {
  const built = new WeakMap<Db, Q>()
  return (db) => {
    let query = built.get(db)
    if (query === undefined) {
      query = build(db)
      built.set(db, query)
    }
    return query
  }
}
