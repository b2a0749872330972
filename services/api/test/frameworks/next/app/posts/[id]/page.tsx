import { notFound } from 'next/navigation'

export const revalidate = 3600
export const generateStaticParams = () => [{ id: '1' }, { id: '2' }]

export default async function Post({ params }: { params: Promise<{ id: string }> }) {
  const { id } = await params
  if (id === 'none') notFound()
  if (id === 'broken') throw new Error('a post that cannot be made')
  return (
    <>
      <h1>Post {id}</h1>
      <time>{Date.now()}</time>
    </>
  )
}
