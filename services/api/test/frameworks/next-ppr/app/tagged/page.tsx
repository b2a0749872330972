import { cacheLife, cacheTag } from 'next/cache'

async function readTime(): Promise<number> {
  'use cache'
  cacheLife('days')
  cacheTag('days')
  return Date.now()
}

export default async function Tagged() {
  return (
    <main>
      <h1>Tagged</h1>
      <time>{await readTime()}</time>
    </main>
  )
}
