import { cacheLife, cacheTag } from 'next/cache'

async function readTime(): Promise<number> {
  'use cache'
  cacheLife('brief')
  cacheTag('time')
  return Date.now()
}

export default async function Cached() {
  return (
    <main>
      <h1>Cached</h1>
      <time>{await readTime()}</time>
    </main>
  )
}
