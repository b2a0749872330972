interface Props {
  params: Promise<{ section: string; topic: string; rest: string[] }>
  searchParams: Promise<Record<string, string>>
}

export default async function Rest({ params, searchParams }: Props) {
  const { section, topic, rest } = await params
  const { n } = await searchParams
  return (
    <h1>
      Rest {section} {topic} {rest.join(' ')} {n}
    </h1>
  )
}
