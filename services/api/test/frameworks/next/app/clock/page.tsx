import { draftMode } from 'next/headers'

export const revalidate = 2

export default async function Clock() {
  const { isEnabled } = await draftMode()
  return (
    <>
      <h1>Clock</h1>
      <time>{Date.now()}</time>
      <p id="draft">{isEnabled ? 'draft' : 'published'}</p>
    </>
  )
}
