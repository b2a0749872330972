'use client'

import { useActionState } from 'react'
import { greet } from './actions'

export function Greeting() {
  const [said, act, isPending] = useActionState(greet, 'Nothing yet')
  return (
    <form action={act} id="greeting">
      <input name="name" defaultValue="" />
      <button disabled={isPending}>Greet</button>
      <output>{said}</output>
    </form>
  )
}
