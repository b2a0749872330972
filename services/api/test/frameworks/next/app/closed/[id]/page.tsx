export const dynamicParams = false
export const generateStaticParams = () => [{ id: 'a' }]

export default async function Closed({ params }: { params: Promise<{ id: string }> }) {
  return <h1>Closed {(await params).id}</h1>
}
