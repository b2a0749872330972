import { after } from 'next/server'

export const dynamic = 'force-dynamic'

export function GET() {
  after(async () => {
    await new Promise((resolve) => setTimeout(resolve, 500))
    console.log('after the answer')
  })
  return new Response('answered')
}
