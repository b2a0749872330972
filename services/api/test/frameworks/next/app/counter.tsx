'use client'

import { useState } from 'react'

/** Says that the page came alive. */
export function Counter() {
  const [count, setCount] = useState(0)
  return (
    <button id="counter" onClick={() => setCount(count + 1)}>
      {process.env.NEXT_PUBLIC_GREETING ?? 'no greeting'} {count}
    </button>
  )
}
