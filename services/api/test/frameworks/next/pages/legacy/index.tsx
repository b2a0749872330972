import Link from 'next/link'

export const getStaticProps = () => ({ props: { time: Date.now() }, revalidate: 2 })

export default function Legacy({ time }: { time: number }) {
  return (
    <main>
      <h1>Legacy</h1>
      <time>{time}</time>
      <Link href="/legacy/1">one</Link> <Link href="/legacy/unknown">unknown</Link>{' '}
      <Link href="/legacy/blocking/1">blocking</Link> <Link href="/legacy/rendered">rendered</Link>
    </main>
  )
}
