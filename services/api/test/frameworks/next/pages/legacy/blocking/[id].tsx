import type { GetStaticPropsContext } from 'next'

export const getStaticPaths = () => ({ paths: [], fallback: 'blocking' })

export const getStaticProps = ({ params }: GetStaticPropsContext<{ id: string }>) => ({
  props: { id: params?.id ?? '', time: Date.now() },
  revalidate: 3600,
})

export default function Blocking({ id, time }: { id: string; time: number }) {
  return (
    <main>
      <h1>Blocking {id}</h1>
      <time>{time}</time>
    </main>
  )
}
