import { error } from '@sveltejs/kit'

export const config = { isr: { expiration: 2 } }

export const load = ({ params }) => {
  if (params.id === 'none') error(404, 'no such post')
  return { id: params.id, time: Date.now() }
}
