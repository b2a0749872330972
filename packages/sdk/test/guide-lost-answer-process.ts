// Loaded before a program: the answer to its first creation of an API key is lost, and repetitions follow at once.
const send = globalThis.fetch
let isLost = false
globalThis.fetch = async (url, init) => {
  const answer = await send(url, init)
  if (isLost || init?.method !== 'POST' || new URL(url as string).pathname !== '/api-keys') return answer
  isLost = true
  throw new TypeError('fetch failed')
}
Math.random = () => 0
