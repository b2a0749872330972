import { cookies, headers } from 'next/headers'

export default async function Visitor() {
  const sent = await headers()
  return (
    <>
      <h1>Visitor</h1>
      <p id="cookie">{(await cookies()).get('who')?.value ?? 'nobody'}</p>
      <p id="agent">{sent.get('user-agent')}</p>
      <p id="proxy">{sent.get('x-from-proxy') ?? 'unseen'}</p>
      <time>{Date.now()}</time>
    </>
  )
}
