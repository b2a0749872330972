import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import postgres from 'postgres'
import { readSettings } from './settings.ts'

// The same promise kept call by call: one conditional update of the budget's row before, and one transaction after, each awaited and
// durable.

const { port, databaseUrl } = readSettings()
const sql = postgres(databaseUrl, { max: 10, onnotice: () => {} })
const HELD = 200_000
const COST = 66_000

await sql`create table bench_budgets (id integer primary key, spent bigint not null, held bigint not null)`
await sql`create table bench_events (id uuid primary key, cost bigint not null)`
await sql`insert into bench_budgets values (1, 0, 0)`

async function holdAndSettle(): Promise<boolean> {
  const held = await sql`
    update bench_budgets set held = held + ${HELD}::bigint where id = 1 and spent + held + ${HELD}::bigint <= 1000000000000000`
  if (held.count === 0) return false
  await sql`
    with event as (insert into bench_events values (${randomUUID()}, ${COST}))
    update bench_budgets set held = held - ${HELD}::bigint, spent = spent + ${COST}::bigint where id = 1`
  return true
}

createServer((_, outgoing) => {
  holdAndSettle()
    .then((isAdmitted) => outgoing.writeHead(isAdmitted ? 200 : 429).end())
    .catch(() => outgoing.writeHead(503).end())
}).listen(port, '127.0.0.1')
