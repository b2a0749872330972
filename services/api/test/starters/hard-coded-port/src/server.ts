import express from 'express'

const app = express()
const port = 8080

app.get('/', (_request, response) => {
  response.send('Express + TypeScript Server')
})
app.get('/users/:id', (request, response) => {
  response.json({ id: request.params.id })
})

app.listen(port, () => {
  console.log(`Server is running at http://localhost:${port}`)
})
