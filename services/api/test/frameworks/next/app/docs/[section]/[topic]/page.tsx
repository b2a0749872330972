export const generateStaticParams = () => [{ section: 'guides', topic: 'start' }]

export async function generateMetadata({ params }: { params: Promise<{ topic: string }> }) {
  return { title: (await params).topic }
}

export default async function Topic({ params }: { params: Promise<{ section: string; topic: string }> }) {
  const { section, topic } = await params
  return (
    <h1>
      Topic {section} {topic}
    </h1>
  )
}
