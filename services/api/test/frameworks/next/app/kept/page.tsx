import { cookies, headers } from 'next/headers'

export const dynamic = 'force-static'
export const revalidate = 2

/** Prints all that it sees of who asked, which is to be nothing. */
export default async function Kept({ searchParams }: { searchParams: Promise<object> }) {
  const seen = {
    cookies: (await cookies()).getAll(),
    headers: Object.fromEntries(await headers()),
    query: await searchParams,
  }
  return (
    <>
      <h1>Kept</h1>
      <pre>{JSON.stringify(seen)}</pre>
      <time>{Date.now()}</time>
    </>
  )
}
