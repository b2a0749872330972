import type { Metadata } from 'next'
import Link from 'next/link'
import type { ReactNode } from 'react'

export const metadata: Metadata = { title: 'Partial' }

export default function Layout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <body>
        <nav>
          {['/', '/cached', '/products/1', '/products/7', '/visitor'].map((path) => (
            <Link key={path} href={path}>
              {path}
            </Link>
          ))}
        </nav>
        {children}
      </body>
    </html>
  )
}
