import { connection } from 'next/server'

export default async function Boom(): Promise<never> {
  await connection()
  throw new Error('a page that throws')
}
