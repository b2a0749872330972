import { expect, test } from 'vitest'
import { localVideoContent, startLocalVideo } from './echo-video.ts'

const request = { model: 'local/echo-video', prompt: 'A bird' }

test('a job is complete at once, and four seconds long where the request does not say', () => {
  const job = startLocalVideo(request)
  expect(job).toEqual({ id: job.id, status: 'completed', model: request.model, duration: 4 })
})

test('equal requests have jobs of the same id, others do not', () => {
  const { id } = startLocalVideo({ ...request, seed: 1 })
  expect(startLocalVideo({ ...request, seed: 1 }).id).toBe(id)
  expect(startLocalVideo({ ...request, seed: 2 }).id).not.toBe(id)
})

test.each([
  [{ seconds: '8' }, 8],
  [{ duration: 65 }, 65],
  [{ duration: 0.2 }, 1],
])('a video of %o has a frame for each second', (more, seconds) => {
  const { contentType, bytes } = localVideoContent(startLocalVideo({ ...request, ...more }))
  expect(contentType).toBe('video/webm')
  expect(bytes.subarray(0, 4).toString('hex')).toBe('1a45dfa3')
  expect(bytes.includes('local/echo-video is no video model')).toBe(true)
  // Each frame is a key frame, and begins with the start code of VP8.
  expect(bytes.toString('latin1').split('\x9d\x01\x2a').length - 1).toBe(seconds)
})

test('a video whose length is not known is four seconds long', () => {
  expect(localVideoContent({ duration: null })).toEqual(localVideoContent({ duration: 4 }))
})
