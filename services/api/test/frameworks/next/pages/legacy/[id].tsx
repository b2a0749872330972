import type { GetStaticPropsContext } from 'next'
import { useRouter } from 'next/router'

export const getStaticPaths = () => ({ paths: [{ params: { id: '1' } }], fallback: true })

export async function getStaticProps({ params }: GetStaticPropsContext<{ id: string }>) {
  if (params?.id === 'none') return { notFound: true as const, revalidate: 2 }
  if (params?.id === 'moved') return { redirect: { destination: '/legacy/1', permanent: false }, revalidate: 2 }
  return { props: { id: params?.id ?? '', time: Date.now() }, revalidate: 3600 }
}

export default function WithFallback({ id, time }: { id: string; time: number }) {
  const { isFallback } = useRouter()
  if (isFallback) return <h1>Being made</h1>
  return (
    <main>
      <h1>Fallback {id}</h1>
      <time>{time}</time>
    </main>
  )
}
