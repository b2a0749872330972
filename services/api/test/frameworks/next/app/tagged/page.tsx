import { unstable_cache } from 'next/cache'

export const revalidate = 3600

const readTime = unstable_cache(async () => Date.now(), ['time'], { tags: ['time'] })

export default async function Tagged() {
  return (
    <>
      <h1>Tagged</h1>
      <time>{await readTime()}</time>
    </>
  )
}
