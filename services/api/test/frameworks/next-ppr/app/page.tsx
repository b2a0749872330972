import { connection } from 'next/server'
import { Suspense } from 'react'

async function Slow() {
  await connection()
  await new Promise((resolve) => setTimeout(resolve, 600))
  return <p id="slow">The slow part, made at {Date.now()}</p>
}

export default function Home() {
  return (
    <main>
      <h1>Shell</h1>
      <Suspense fallback={<p id="waiting">Waiting</p>}>
        <Slow />
      </Suspense>
    </main>
  )
}
