export const dynamic = 'force-dynamic'

export const GET = () =>
  Response.json({
    secret: process.env.SERVER_SECRET,
    greeting: process.env.NEXT_PUBLIC_GREETING,
    env: process.env.VERCEL_ENV,
  })
