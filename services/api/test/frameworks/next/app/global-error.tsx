'use client'

export default function GlobalError({ error }: { error: Error & { digest?: string } }) {
  return (
    <html lang="en">
      <body>
        <h1>It broke, says the fixture</h1>
        <p id="digest">{error.digest}</p>
      </body>
    </html>
  )
}
