import { cookies } from 'next/headers'
import { Suspense } from 'react'

export const generateStaticParams = () => [{ id: '1' }]

async function readProduct(id: string): Promise<string> {
  'use cache'
  return `Product ${id}, read at ${Date.now()}`
}

async function Product({ params }: { params: Promise<{ id: string }> }) {
  const { id } = await params
  return <h2>{await readProduct(id)}</h2>
}

async function Basket() {
  const who = (await cookies()).get('who')?.value ?? 'nobody'
  await new Promise((resolve) => setTimeout(resolve, 400))
  return <p id="basket">The basket of {who}</p>
}

export default function ProductPage({ params }: { params: Promise<{ id: string }> }) {
  return (
    <main>
      <h1>Shop</h1>
      <Suspense fallback={<p>Reading the product</p>}>
        <Product params={params} />
      </Suspense>
      <Suspense fallback={<p>Reading the basket</p>}>
        <Basket />
      </Suspense>
    </main>
  )
}
