import type { ChatRequest } from '@platform/ai-protocols/chat-request'
import type { SpeechRequest } from '@platform/ai-protocols/speech-request'
import { answerChat } from './echo-chat.ts'
import { answerSpeech } from './echo-speech.ts'
import { answerTranscription, type LocalTranscriptionRequest } from './echo-transcription.ts'
import type { LocalAnswer, LocalCall } from './local-answer.ts'

/**
 * Answers with one of the models that run in this process. They are deterministic, not language models, and say so.
 *
 * request: a body that passed the check of its endpoint in packages/ai-protocols; for a form, its fields.
 * Throws AiError with the code `unsupported_parameter` for a format that is not supported here.
 */
export function answerLocally(
  operation: 'chat' | 'speech' | 'transcription',
  request: unknown,
  call: LocalCall,
): LocalAnswer | Promise<LocalAnswer> {
  // The checks in packages/ai-protocols have established these shapes.
  switch (operation) {
    case 'chat':
      return answerChat(request as ChatRequest, call)
    case 'speech':
      return answerSpeech(request as SpeechRequest, call)
    case 'transcription':
      return answerTranscription(request as LocalTranscriptionRequest, call)
  }
}
