import type { Db } from './database.ts'

/**
 * Builds a prepared statement at its first use and caches it per database, so that later requests skip the query builder.
 * `build` ends in `.prepare(name)`; placeholders outside of inserts are not encoded, so pass instants as ISO text.
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
