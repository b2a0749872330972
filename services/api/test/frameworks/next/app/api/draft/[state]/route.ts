import { draftMode } from 'next/headers'

export async function GET(_: Request, { params }: { params: Promise<{ state: string }> }) {
  const draft = await draftMode()
  if ((await params).state === 'on') draft.enable()
  else draft.disable()
  return new Response('ok')
}
