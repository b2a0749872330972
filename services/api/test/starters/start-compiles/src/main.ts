import express from 'express'

const app = express()
app.get('/', (_request, response) => {
  response.send('Hello World!')
})
app.get('/cats/:id', (request, response) => {
  response.json({ id: request.params.id })
})
app.listen(Number(process.env.PORT ?? 3000))
