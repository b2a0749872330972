import Link from 'next/link'
import type { ReactNode } from 'react'

export default function DocsLayout({ children }: { children: ReactNode }) {
  return (
    <section id="docs">
      <Link href="/docs/guides">guides</Link> <Link href="/docs/guides/start">start</Link>{' '}
      <Link href="/docs/guides/start/first/step?n=1">first step</Link>
      {children}
    </section>
  )
}
