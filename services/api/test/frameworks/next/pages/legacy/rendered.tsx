import type { GetServerSidePropsContext } from 'next'

export const getServerSideProps = ({ req, query }: GetServerSidePropsContext) => ({
  props: { agent: req.headers['user-agent'] ?? '', q: query.q ?? '' },
})

export default function Rendered({ agent, q }: { agent: string; q: string }) {
  return (
    <main>
      <h1>Rendered {q}</h1>
      <p>{agent}</p>
    </main>
  )
}
