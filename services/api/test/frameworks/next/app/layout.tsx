import type { Metadata } from 'next'
import Link from 'next/link'
import type { ReactNode } from 'react'
import './style.css'

export const metadata: Metadata = { title: { default: 'Fixture', template: '%s · Fixture' } }

const places = ['/', '/docs', '/clock', '/posts/1', '/visitor', '/kept', '/slow', '/form', '/picture', '/legacy']

export default function Layout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <body>
        <nav>
          {places.map((path) => (
            <Link key={path} href={path}>
              {path}
            </Link>
          ))}
        </nav>
        <main>{children}</main>
      </body>
    </html>
  )
}
