import { headers } from 'next/headers'
import { Suspense } from 'react'

async function Agent() {
  return <p id="agent">{(await headers()).get('user-agent')}</p>
}

export default function Visitor() {
  return (
    <main>
      <h1>Visitor</h1>
      <Suspense fallback={<p>Looking</p>}>
        <Agent />
      </Suspense>
    </main>
  )
}
