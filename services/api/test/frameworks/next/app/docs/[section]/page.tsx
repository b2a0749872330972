export default async function Section({ params }: { params: Promise<{ section: string }> }) {
  const { section } = await params
  return <h1>Section {section}</h1>
}
