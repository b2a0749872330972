import { headers } from 'next/headers'
import { redirect } from 'next/navigation'
import { addressIn } from '../../address'
import { report } from './actions'

export default async function Address({ searchParams }: { searchParams: Promise<Record<string, string>> }) {
  const { to, action } = await searchParams
  const address = addressIn(await headers())
  if (to !== undefined) redirect(address.forwarded + to)
  return (
    <>
      <h1>Address</h1>
      <p id="page">{JSON.stringify(address)}</p>
      <p id="action">{action}</p>
      <form action={report} id="report">
        <button>Report</button>
      </form>
    </>
  )
}
