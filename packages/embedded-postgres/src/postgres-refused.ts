/** Postgres cannot run here; the message is one sentence that tells a person what to do. */
export class PostgresRefused extends Error {
  override name = 'PostgresRefused'
}
