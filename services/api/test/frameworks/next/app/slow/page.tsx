import { connection } from 'next/server'
import { Suspense } from 'react'

async function Slow() {
  await connection()
  await new Promise((resolve) => setTimeout(resolve, 600))
  return <p id="slow">The slow part</p>
}

export default function SlowPage() {
  return (
    <>
      <h1>Slow</h1>
      <Suspense fallback={<p>Waiting</p>}>
        <Slow />
      </Suspense>
    </>
  )
}
